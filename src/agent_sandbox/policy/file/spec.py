"""The model of a policy file.

Short forms (`- example.com`, `- GET https://example.com/x`) are expanded first, so one model validates every entry.
Unknown keys are errors, and so are reserved ones, which this version does not support yet.
"""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self, override

from pydantic import BaseModel, BeforeValidator, Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.errors import InvalidValue
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
from agent_sandbox.policy.file.fields import BodySize, BudgetSpec, Listed, Strict, Text, Written, fits, written_out
from agent_sandbox.policy.file.graphql_spec import GraphqlSpec
from agent_sandbox.policy.file.mcp_spec import McpSpec
from agent_sandbox.policy.file.service_options import Declared, Repositories
from agent_sandbox.policy.file.service_spec import AccessSpec, AuthSpec, ServiceEntry, ServiceSpec
from agent_sandbox.policy.file.settings_spec import SettingsSpec, UpstreamSpec
from agent_sandbox.policy.file.short_form import HOW, write_out_allow, write_out_deny, write_out_host
from agent_sandbox.policy.file.transform_spec import (
    CredentialSpec,
    KindSpec,
    ParameterSpec,
    RequestTransformSpec,
    ShimSpec,
    TransformSpec,
)
from agent_sandbox.policy.match.host_list import parse_file_name
from agent_sandbox.policy.match.host_service import parse_host_service_name
from agent_sandbox.policy.text import safe_repr

# Only the shape is checked here. Whether the request is ambiguous shows when the test runs.
REQUEST_LINE = re.compile(r"(?P<method>[A-Z][A-Z_-]*) (?P<url>https?://[^\s/?#]+\S*)", re.ASCII)
MESSAGE = re.compile(r"[A-Za-z/_]+(?: \S+)?", re.ASCII)


def _request_line(text: str) -> str:
    if REQUEST_LINE.fullmatch(text) is None:
        raise InvalidValue(f"not `METHOD URL`: {safe_repr(text)}", HOW)
    return text


def _message(text: str) -> str:
    if MESSAGE.fullmatch(text) is None:
        raise InvalidValue(f"not an MCP message: {safe_repr(text)}", "write `tools/call search`, or a method")
    return text


McpText = Annotated[str, PlainValidator(fits(_message), json_schema_input_type=str)]
RequestLine = Annotated[str | None, PlainValidator(fits(_request_line), json_schema_input_type=str)]


class TestSpec(Strict):
    """A request, and the expected decision."""

    __test__: ClassVar[bool] = False  # keeps pytest from collecting the class

    allow: RequestLine = None
    deny: RequestLine = None
    headers: Written[dict[str, str]] = None
    body_size: Written[BodySize] = None
    graphql: Written[str] = None
    mcp: Written[McpText] = None
    reason: Text = ""

    @model_validator(mode="after")
    def _expects_one_answer(self) -> Self:
        if (self.allow is None) == (self.deny is None):
            what, hint = "a test needs exactly one of `allow` and `deny`", f"{HOW} after it"
            raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
        written = [name for name in ("graphql", "mcp", "body_size") if getattr(self, name) is not None]
        if len(written) > 1:
            what, hint = f"`{written[0]}` already determines the size of the body", f"remove `{written[1]}`"
            raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint, "at": (written[1],)})
        return self

    @property
    def effect(self) -> Effect:
        """The expected effect."""
        return Effect.DENY if self.allow is None else Effect.ALLOW

    @property
    def method(self) -> str:
        """The method of the request."""
        return self._line.partition(" ")[0]

    @property
    def url(self) -> str:
        """The URL of the request, as it is written."""
        return self._line.partition(" ")[2]

    @property
    def _line(self) -> str:
        return self.allow or self.deny or ""


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


def _flag_as_text(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _none_is_empty(value: object) -> object:
    """Return an empty list for a section with only comments."""
    return [] if value is None else value


def _none_is_empty_mapping(value: object) -> object:
    """Return an empty mapping for a section with only comments."""
    return {} if value is None else value


Name = Annotated[str, PlainValidator(fits(parse_host_service_name))]
FileName = Annotated[str, PlainValidator(fits(parse_file_name))]
type Named[T] = Annotated[dict[Name, T], BeforeValidator(_none_is_empty_mapping)]
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
    # Only in services.
    title: Text = ""
    reason: Text = ""
    date: Text = ""

    @property
    def declared(self) -> Declared:
        """The options that a policy can set: none, except for a service."""
        return {}


class ServiceFileSpec(PolicySpec):
    """The file of a service: its rules, its options, and its other names (`also`)."""

    also: Listed[Text] = ()
    options: dict[str, Repositories | AccessSpec | AuthSpec] = Field(default_factory=dict)
    domains: Section[ServiceEntry] = ()

    @property
    @override
    def declared(self) -> Declared:
        return {name: kind if isinstance(kind, str) else kind.declared for name, kind in self.options.items()}


# The model below each key (or `parent/key`), for hints about unknown keys.
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
    "mcp": McpSpec,
    "transform": TransformSpec,
    "request": RequestTransformSpec,
    "headers": CredentialSpec,
    "headers/transform": KindSpec,
    "request/query": ParameterSpec,
    "client_shim": ShimSpec,
    "settings": SettingsSpec,
    "budget": BudgetSpec,
    "upstream": UpstreamSpec,
    "tests": TestSpec,
}

# Reserved keys as (section, key). This version does not support them, and rejects them by name.
RESERVED_KEYS = frozenset({("", "secrets")})
