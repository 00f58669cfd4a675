"""The policy file as typed values: exactly what may be written, and nothing else.

Short spellings (`- example.com`, `- GET https://example.com/x`) are written out before they are checked, so that there
is one model of an entry. Unknown keys are errors, and so are known ones that this version does not build yet.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, override

from pydantic import BaseModel, BeforeValidator, Field, PlainValidator

from agent_sandbox.policy.file.entry_spec import (
    DenyEntrySpec,
    DomainSpec,
    EntrySpec,
    HostServiceSpec,
    PathSpec,
    QuerySpec,
    Reachable,
    RuleSpec,
)
from agent_sandbox.policy.file.fields import Listed, Strict, Text, Written, fits, written_out
from agent_sandbox.policy.file.graphql_spec import GraphqlSpec
from agent_sandbox.policy.file.service_options import Declared, Repositories
from agent_sandbox.policy.file.service_spec import AccessSpec, ServiceEntry, ServiceSpec
from agent_sandbox.policy.file.settings_spec import SettingsSpec, UpstreamSpec
from agent_sandbox.policy.file.short_form import write_out_allow, write_out_deny, write_out_host
from agent_sandbox.policy.file.test_spec import TestSpec
from agent_sandbox.policy.file.transform_spec import CredentialSpec, KindSpec, RequestTransformSpec, TransformSpec
from agent_sandbox.policy.match.host_list import parse_file_name
from agent_sandbox.policy.match.host_service import parse_host_service_name


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


def _flag_as_text(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _none_is_empty(value: object) -> object:
    """Take a section whose lines are all comments as its author means it."""
    return [] if value is None else value


def _none_is_no_name(value: object) -> object:
    """Take an empty mapping in the same way."""
    return {} if value is None else value


Name = Annotated[str, PlainValidator(fits(parse_host_service_name))]
FileName = Annotated[str, PlainValidator(fits(parse_file_name))]
type Named[T] = Annotated[dict[Name, T], BeforeValidator(_none_is_no_name)]
type Section[T] = Annotated[Listed[T], BeforeValidator(_none_is_empty)]
DomainEntry = Annotated[DomainSpec, Reachable, written_out(write_out_host)]
AllowEntry = Annotated[EntrySpec, Reachable, written_out(write_out_allow)]
DenyEntry = Annotated[DenyEntrySpec, written_out(write_out_deny)]


class PolicySpec(Strict):
    """A policy file."""

    # Of which `true` is one to Python.
    version: Annotated[Literal[1], BeforeValidator(_flag_as_text)] = 1
    tighten: bool = False
    allow_all: bool = False
    services: Section[Annotated[ServiceSpec, BeforeValidator(_named)]] = ()
    domains: Section[DomainEntry] = ()
    domains_file: Written[FileName] = None
    allow: Section[AllowEntry] = ()
    deny: Section[DenyEntry] = ()
    host_services: Named[HostServiceSpec] = Field(default_factory=dict)
    settings: SettingsSpec = SettingsSpec()
    tests: Section[TestSpec] = ()
    # What a service says of itself.
    title: Text = ""
    reason: Text = ""
    date: Text = ""

    @property
    def declared(self) -> Declared:
        """The options that a policy may choose of this: none."""
        return {}


class ServiceFileSpec(PolicySpec):
    """The file of a service: what it lets through, what of it can be chosen, and what else people call it."""

    also: Listed[Text] = ()
    options: dict[str, Repositories | AccessSpec] = Field(default_factory=dict)
    domains: Section[ServiceEntry] = ()

    @property
    @override
    def declared(self) -> Declared:
        return {name: kind.declared if isinstance(kind, AccessSpec) else kind for name, kind in self.options.items()}


# Which model stands below a key, or below one that is below another: where a word is unknown, the words known there are
# offered.
MODELS: Mapping[str, type[BaseModel]] = {
    "": PolicySpec,
    "services": ServiceSpec,
    "domains": DomainSpec,
    "allow": EntrySpec,
    "deny": EntrySpec,
    "host_services": HostServiceSpec,
    "rules": RuleSpec,
    "path": PathSpec,
    "query": QuerySpec,
    "graphql": GraphqlSpec,
    "transform": TransformSpec,
    "request": RequestTransformSpec,
    "headers": CredentialSpec,
    "headers/transform": KindSpec,
    "settings": SettingsSpec,
    "upstream": UpstreamSpec,
    "tests": TestSpec,
}

# Keys of the language that this version does not build yet, as (section, key): refused by name, never ignored.
RESERVED_KEYS = frozenset({("", "secrets")})
