"""An entry of the policy file: a host, and the rules on what may be asked of it."""

from functools import partial
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from agent_sandbox.policy.errors import Unfit
from agent_sandbox.policy.file.fields import (
    AtLeastOne,
    BodySize,
    Headers,
    Host,
    Method,
    Ports,
    QueryValues,
    Strict,
    Text,
    Written,
    fits,
    path_of,
    refused,
    told,
    written_out,
)
from agent_sandbox.policy.file.graphql_spec import GraphqlSpec, refuse_what_is_no_graphql
from agent_sandbox.policy.file.short_form import write_out_rule
from agent_sandbox.policy.file.transform_spec import TransformSpec, refuse_in_the_clear
from agent_sandbox.policy.http.headers import HeaderPattern, header_pattern
from agent_sandbox.policy.http.query import QueryPattern, query_pattern
from agent_sandbox.policy.match.host_pattern import Reach
from agent_sandbox.policy.match.host_service import HostServiceRow, Target, host_service_row, parse_target
from agent_sandbox.policy.match.path_pattern import PathKind, PathPattern
from agent_sandbox.policy.match.private_hosts import how_to_name, why_private
from agent_sandbox.policy.match.public_suffix import refuse_strangers

NO_SIZE = refused(
    "a deny has no `max_body`: it would let larger bodies through",
    "take it out; `max_body` goes with what is allowed",
)
NO_GRAPHQL = refused(
    "a deny has no `graphql`: what an operation does can be asked for in more ways than a list names",
    "take it out; `graphql` goes with what is allowed, and what it does not list is denied",
)
NO_TRANSFORM = refused("a deny puts nothing in", "take `transform` out; it goes with what is allowed")
NO_INSPECT = refused("a deny has no `inspect`", "take it out; `inspect` goes with a host that is allowed")

# To an editor no value is one.
NOWHERE = WithJsonSchema({"not": {}})


class PathSpec(Strict):
    """One way to name paths."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    exact: Annotated[PathPattern | None, path_of(PathKind.EXACT)] = None
    prefix: Annotated[PathPattern | None, path_of(PathKind.PREFIX)] = None
    glob: Annotated[PathPattern | None, path_of(PathKind.GLOB)] = None

    @model_validator(mode="after")
    def _is_one(self) -> "PathSpec":
        if len(self.model_fields_set) != 1:
            raise PydanticCustomError("unfit", "{what}", {"what": "a path is one of `exact`, `prefix`, `glob`"})
        return self

    @property
    def pattern(self) -> PathPattern | None:
        """The one that is written."""
        return self.exact or self.prefix or self.glob


class QuerySpec(Strict):
    """Conditions on the query."""

    exact: dict[str, QueryValues]

    @property
    def pattern(self) -> QueryPattern:
        """The parameters as a pattern."""
        return query_pattern(self.exact)


class RuleSpec(Strict):
    """One conjunction of conditions on the requests to a host."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    methods: AtLeastOne[Method] = ()
    schemes: AtLeastOne[Literal["http", "https"]] = ()
    path: Written[PathSpec] = None
    query: Written[QuerySpec] = None
    headers: Written[Headers] = None
    max_body: Written[BodySize] = None
    graphql: Written[GraphqlSpec] = None
    transform: Written[TransformSpec] = None
    reason: Text = ""

    @model_validator(mode="after")
    def _can_match(self) -> Self:
        if self.graphql:
            refuse_what_is_no_graphql(self.methods, has_query=self.query is not None)
        if self.transform:
            refuse_in_the_clear(self.schemes)
        return self

    @property
    def header_pattern(self) -> HeaderPattern | None:
        """The headers as a pattern."""
        return header_pattern(self.headers) if self.headers else None


class EntrySpec(Strict):
    """A host and what may be asked of it: everything, or what one of the rules says."""

    host: Host
    ports: Ports = ()
    rules: AtLeastOne[Annotated[RuleSpec, written_out(write_out_rule)]] = ()
    encoded_slash: bool = False
    transform: Written[TransformSpec] = None
    inspect: bool | None = None
    reason: Text = ""
    # What a service says of an entry: what is accepted with it, and a request that it is for.
    risk: Text = ""
    probe: Text = ""


# What of an entry TLS has to be opened for.
INSIDE = ("rules", "encoded_slash", "transform")


class DomainSpec(EntrySpec):
    """An entry of `domains`; what it replaces are the allows of the same host in lower layers."""

    inspect: Written[bool] = None
    merge_mode: Written[Literal["replace"]] = None

    @field_validator("inspect")
    @classmethod
    def _asks_nothing_inside(cls, inspect: bool | None, info: ValidationInfo) -> bool | None:  # noqa: FBT001 - pydantic's
        if inspect is False and any(map(info.data.get, INSIDE)):
            what = "`inspect: false` lets TLS through unopened, and this entry asks for what is inside"
            hint = "take out `inspect`, or `rules`, `encoded_slash` and `transform`"
            raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint})
        return inspect

    @model_validator(mode="after")
    def _keeps_secrets_covered(self) -> Self:
        for number, rule in enumerate(self.rules if self.transform else ()):
            refuse_in_the_clear(rule.schemes, "rules", number)
        return self


class DenyRuleSpec(RuleSpec):
    """The same under `deny`."""

    max_body: Annotated[int | None, NO_SIZE, NOWHERE] = None
    graphql: Annotated[GraphqlSpec | None, NO_GRAPHQL, NOWHERE] = None
    transform: Annotated[TransformSpec | None, NO_TRANSFORM, NOWHERE] = None


class DenyEntrySpec(EntrySpec):
    """The same under `deny`."""

    transform: Annotated[TransformSpec | None, NO_TRANSFORM, NOWHERE] = None
    inspect: Annotated[bool | None, NO_INSPECT, NOWHERE] = None
    rules: AtLeastOne[Annotated[DenyRuleSpec, written_out(write_out_rule)]] = ()


class HostServiceSpec(RuleSpec):
    """A private place, and what may be asked of it."""

    to: Annotated[Target, PlainValidator(fits(parse_target), json_schema_input_type=str)]
    ports: Ports = ()

    @model_validator(mode="after")
    def _has_its_ports_once(self) -> "HostServiceSpec":
        network = self.to.network
        if network is not None and not self.ports:
            what, hint = f"a network has no port of its own: `{network}`", "write `ports: [8080]` beside it"
            raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint})
        if network is None and self.ports:
            what, hint = f"the port stands in `to` already: {self.to.port}", "take `ports` out"
            raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint})
        return self

    def row(self, name: str) -> HostServiceRow:
        """Return how the place is asked for, and where that leads."""
        return host_service_row(name, self.to, self.ports)


def _reachable[E: EntrySpec](entry: E, *, every: bool) -> E:
    """Refuse to allow what the proxy would not dial, and every host where the file does not say that it may."""
    refuse_strangers(entry.host)
    if entry.host.reach is Reach.EVERY:
        if not every:
            raise Unfit("`*` would allow every host", "name the hosts; if all of them are meant, `allow_all: true`")
        return entry
    why = why_private(entry.host.name)
    if why is not None:
        raise Unfit(f"{entry.host} {why}", how_to_name(entry.host.name, entry.ports[0] if entry.ports else 443))
    return entry


# Each entry by itself, so that one of them does not wait until the others are mended.
Reachable = AfterValidator(
    lambda entry, info: told(partial(_reachable, every=info.data.get("allow_all", False)), entry)
)
