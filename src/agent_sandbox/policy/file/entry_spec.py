"""An entry of the policy file: a host, and the rules on requests to it."""

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

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.file.fields import (
    AtLeastOne,
    BodySize,
    BudgetSpec,
    Headers,
    Host,
    Method,
    Ports,
    QueryValues,
    Strict,
    Text,
    Written,
    call_parser,
    fits,
    path_of,
    refused,
    written_out,
)
from agent_sandbox.policy.file.graphql_spec import GraphqlSpec, require_graphql_post
from agent_sandbox.policy.file.mcp_spec import McpSpec, require_mcp_methods
from agent_sandbox.policy.file.short_form import write_out_rule
from agent_sandbox.policy.file.transform_spec import TransformSpec, require_https
from agent_sandbox.policy.http.headers import HeaderPattern, header_pattern
from agent_sandbox.policy.http.query import QueryPattern, query_pattern
from agent_sandbox.policy.match.host_pattern import Reach
from agent_sandbox.policy.match.host_service import HostServiceRow, Target, host_service_row, parse_target
from agent_sandbox.policy.match.other_protocols import require_http
from agent_sandbox.policy.match.path_pattern import PathKind, PathPattern
from agent_sandbox.policy.match.private_hosts import how_to_name, why_private
from agent_sandbox.policy.match.public_suffix import require_no_public_suffix

NO_SIZE = refused(
    "`max_body` is not possible in a deny: it would let larger bodies through",
    "remove it; `max_body` belongs in an entry that allows",
)
NO_GRAPHQL = refused(
    "`graphql` is not possible in a deny: other fields than those in a list can have the same effect",
    "remove it; `graphql` belongs in an entry that allows, and what it does not list is denied",
)
NO_MCP = refused(
    "`mcp` is not possible in a deny: other tools than those in a list can have the same effect",
    "remove it; `mcp` belongs in an entry that allows, and what it does not list is denied",
)
NO_TRANSFORM = refused(
    "`transform` is not possible in a deny", "remove it; `transform` belongs in an entry that allows"
)
NO_INSPECT = refused("`inspect` is not possible in a deny", "remove it; `inspect` belongs in an entry that allows")

NO_ASK = refused("`ask` is not possible in a deny", "remove it; `ask` belongs in an entry that allows")
NO_ASK_INSIDE = refused(
    "`ask` is not possible for a host service: no answer can allow a private address",
    "remove it; name in `methods` and `path` what is allowed",
)
NO_BUDGET = refused("`budget` is not possible in a deny", "remove it; `budget` belongs in an entry that allows")

# The JSON Schema of a key that allows no value.
NOWHERE = WithJsonSchema({"not": {}})


class PathSpec(Strict):
    """A path condition of one kind."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    exact: Annotated[PathPattern | None, path_of(PathKind.EXACT)] = None
    prefix: Annotated[PathPattern | None, path_of(PathKind.PREFIX)] = None
    glob: Annotated[PathPattern | None, path_of(PathKind.GLOB)] = None

    @model_validator(mode="after")
    def _is_one(self) -> "PathSpec":
        if len(self.model_fields_set) != 1:
            raise PydanticCustomError(
                "invalid_value", "{what}", {"what": "`path` needs exactly one of `exact`, `prefix` and `glob`"}
            )
        return self

    @property
    def pattern(self) -> PathPattern | None:
        """The pattern of the kind that is set."""
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
    mcp: Written[McpSpec] = None
    transform: Written[TransformSpec] = None
    # The entry's, unless it is set here.
    ask: Written[bool] = None
    reason: Text = ""

    @model_validator(mode="after")
    def _can_match(self) -> Self:
        if self.graphql:
            require_graphql_post(self.methods, has_query=self.query is not None)
            _require_no_question(self, "graphql", "ask")
        if self.mcp:
            require_mcp_methods(self.methods, has_graphql=self.graphql is not None)
            _require_no_question(self, "mcp", "ask")
        if self.transform:
            require_https(self.schemes)
        return self

    @property
    def header_pattern(self) -> HeaderPattern | None:
        """The headers as a pattern."""
        return header_pattern(self.headers) if self.headers else None


class EntrySpec(Strict):
    """A host and the requests to it: all of them, or those that match one of the rules."""

    host: Host
    ports: Ports = ()
    rules: AtLeastOne[Annotated[RuleSpec, written_out(write_out_rule)]] = ()
    encoded_slash: bool = False
    transform: Written[TransformSpec] = None
    ask: bool = False
    inspect: bool | None = None
    budget: Written[BudgetSpec] = None
    reason: Text = ""
    # Only in services: the risk that is accepted with the entry, and a sample request.
    risk: Text = ""
    probe: Text = ""


# The keys of an entry that need TLS to be inspected.
INSIDE = ("rules", "encoded_slash", "transform", "ask")


class DomainSpec(EntrySpec):
    """An entry of `domains`. With `merge_mode: replace` it replaces the allows for the same host in lower layers."""

    inspect: Written[bool] = None
    merge_mode: Written[Literal["replace"]] = None

    @field_validator("inspect")
    @classmethod
    def _asks_nothing_inside(cls, inspect: bool | None, info: ValidationInfo) -> bool | None:  # noqa: FBT001 - pydantic's
        if inspect is False and any(map(info.data.get, INSIDE)):
            what = "`inspect: false` is passthrough, but this entry has conditions on the requests inside"
            hint = "remove `inspect`, or `rules`, `encoded_slash`, `transform` and `ask`"
            raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
        return inspect

    @model_validator(mode="after")
    def _has_ports_of_http(self) -> Self:
        named = self.inspect is False or (bool(self.rules) and all(rule.schemes for rule in self.rules))
        how = "write `rules: [{schemes: [http]}]` beside `ports`"
        call_parser(partial(require_http, named=named, how=how), self.ports)
        return self

    @model_validator(mode="after")
    def _fits_its_rules(self) -> Self:
        for number, rule in enumerate(self.rules if self.transform else ()):
            require_https(rule.schemes, "rules", number)
        for number, rule in enumerate(self.rules if self.ask else ()):
            key = "graphql" if rule.graphql else "mcp"
            if getattr(rule, key) and rule.ask is None:
                _require_no_question(self, key, "rules", number, key)
        return self


class DenyRuleSpec(RuleSpec):
    """A rule under `deny`."""

    max_body: Annotated[int | None, NO_SIZE, NOWHERE] = None
    graphql: Annotated[GraphqlSpec | None, NO_GRAPHQL, NOWHERE] = None
    mcp: Annotated[McpSpec | None, NO_MCP, NOWHERE] = None
    transform: Annotated[TransformSpec | None, NO_TRANSFORM, NOWHERE] = None
    ask: Annotated[bool | None, NO_ASK, NOWHERE] = None


class DenyEntrySpec(EntrySpec):
    """An entry of `deny`."""

    transform: Annotated[TransformSpec | None, NO_TRANSFORM, NOWHERE] = None
    ask: Annotated[bool, NO_ASK, NOWHERE] = False
    inspect: Annotated[bool | None, NO_INSPECT, NOWHERE] = None
    budget: Annotated[BudgetSpec | None, NO_BUDGET, NOWHERE] = None
    rules: AtLeastOne[Annotated[DenyRuleSpec, written_out(write_out_rule)]] = ()


class HostServiceSpec(RuleSpec):
    """A host service, and the conditions on requests to it."""

    to: Annotated[Target, PlainValidator(fits(parse_target), json_schema_input_type=str)]
    ports: Ports = ()
    ask: Annotated[bool | None, NO_ASK_INSIDE, NOWHERE] = None

    @model_validator(mode="after")
    def _has_usable_ports_once(self) -> "HostServiceSpec":
        network = self.to.network
        if network is not None and not self.ports:
            what, hint = f"`ports` is missing for the network `{network}`", "write `ports: [8080]` beside it"
            raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
        if network is None and self.ports:
            what, hint = f"`to` already has the port {self.to.port}", "remove `ports`"
            raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
        how = "write `schemes: [http]` beside `to`"
        call_parser(partial(require_http, named=bool(self.schemes), how=how), (self.to.port, *self.ports))
        return self

    def row(self, name: str) -> HostServiceRow:
        """Return the host, the ports and the target of the host service."""
        return host_service_row(name, self.to, self.ports)


def _require_no_question(written: RuleSpec | EntrySpec, key: str, *at: str | int) -> None:
    """Raise an error for `ask: true` where only a request's body shows whether its rule matches, by `key`."""
    if written.ask:
        what = f"`ask` is not possible with `{key}`: a person is asked before the body arrives"
        hint = f"ask about the whole path in a rule without `{key}`"
        raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint, "at": at})


def _reachable[E: EntrySpec](entry: E, *, every: bool) -> E:
    """Raise InvalidValue for a host that the proxy would not connect to, and for `*` without `allow_all: true`."""
    require_no_public_suffix(entry.host)
    if entry.host.reach is Reach.EVERY:
        if not every:
            raise InvalidValue(
                "`*` would allow every host", "name the hosts, or set `allow_all: true` to allow all of them"
            )
        return entry
    why = why_private(entry.host.name)
    if why is not None:
        raise InvalidValue(f"{entry.host} {why}", how_to_name(entry.host.name, entry.ports[0] if entry.ports else 443))
    return entry


# Checked per entry, so that all problems are reported at once.
Reachable = AfterValidator(
    lambda entry, info: call_parser(partial(_reachable, every=info.data.get("allow_all", False)), entry)
)
