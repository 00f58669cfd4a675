"""The policy file as typed values: exactly what may be written, and nothing else.

Short spellings (`- example.com`, `- GET https://example.com/x`) are written out before they are checked, so that there
is one model of an entry. Unknown keys are errors, and so are known ones that this version does not build yet.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from agent_sandbox.policy.addresses import PUBLIC_ALONE, why_forbidden
from agent_sandbox.policy.host import is_address
from agent_sandbox.policy.hostpattern import HostPattern, parse_host_pattern
from agent_sandbox.policy.method import NAMEABLE
from agent_sandbox.policy.pathpattern import PathKind, PathPattern, parse_path_pattern
from agent_sandbox.policy.query import QueryPattern, query_pattern
from agent_sandbox.policy.shortform import write_out_allow, write_out_deny, write_out_host
from agent_sandbox.policy.unfit import Unfit

type Listed[T] = Annotated[tuple[T, ...], Field(strict=False)]


def _not_empty[T](values: tuple[T, ...]) -> tuple[T, ...]:
    if not values:
        what, hint = "an empty list says nothing", "take it out, or fill it"
        raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint})
    return values


def _is_something(value: object) -> object:
    """Refuse a key with nothing behind it: a condition that is not there would let everything through."""
    if value is None:
        what, hint = "nothing stands here", "take the key out, or fill it"
        raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint})
    return value


type Written[T] = Annotated[T | None, BeforeValidator(_is_something)]
type AtLeastOne[T] = Annotated[Listed[T], AfterValidator(_not_empty)]


def _fits[T](parse: Callable[[str], T]) -> Callable[[object], T]:
    """Let pydantic collect what a parser finds unfit, together with everything else."""

    def checked(value: object) -> T:
        if not isinstance(value, str):
            raise PydanticKnownError("string_type")
        return _told(parse, value)

    return checked


def _told[V, T](parse: Callable[[V], T], value: V) -> T:
    try:
        return parse(value)
    except Unfit as unfit:
        raise PydanticCustomError("unfit", "{what}", {"what": unfit.what, "hint": unfit.hint}) from unfit


def _written_out(write_out: Callable[[object], object]) -> BeforeValidator:
    return BeforeValidator(lambda value: _told(write_out, value))


def _method(text: str) -> str:
    if text not in NAMEABLE:
        raise PydanticCustomError("word", "method", {"kind": "method", "word": text, "words": sorted(NAMEABLE)})
    return text


def _path(kind: PathKind) -> PlainValidator:
    return PlainValidator(_fits(lambda text: parse_path_pattern(kind, text)))


def _one_line(text: str) -> str:
    """Make one printable line of a text that ends up in logs and terminals."""
    line = " ".join(text.split())
    if not line.isprintable():
        raise PydanticCustomError("unfit", "{what}", {"what": "a text with characters that cannot be shown"})
    return line


def _listed_value(value: object) -> object:
    return [value] if isinstance(value, str) else value


Port = Annotated[int, Field(ge=1, le=65535)]
Method = Annotated[str, PlainValidator(_fits(_method))]
Host = Annotated[HostPattern, PlainValidator(_fits(parse_host_pattern))]
Text = Annotated[str, Field(max_length=1000), AfterValidator(_one_line)]
QueryValues = Annotated[AtLeastOne[str], BeforeValidator(_listed_value)]


class Strict(BaseModel):
    """No key that is not named here, no value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PathSpec(Strict):
    """One way to name paths."""

    exact: Annotated[PathPattern | None, _path(PathKind.EXACT)] = None
    prefix: Annotated[PathPattern | None, _path(PathKind.PREFIX)] = None
    glob: Annotated[PathPattern | None, _path(PathKind.GLOB)] = None

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

    methods: AtLeastOne[Method] = ()
    schemes: AtLeastOne[Literal["http", "https"]] = ()
    path: Written[PathSpec] = None
    query: Written[QuerySpec] = None
    reason: Text = ""


class EntrySpec(Strict):
    """A host and what may be asked of it: everything, or what one of the rules says."""

    host: Host
    ports: AtLeastOne[Port] = ()
    rules: AtLeastOne[RuleSpec] = ()
    encoded_slash: bool = False
    reason: Text = ""


def _reachable(entry: EntrySpec) -> EntrySpec:
    """Refuse to allow what the proxy would not dial."""
    name = entry.host.name
    kind = why_forbidden(name) if is_address(name) else None
    if kind is not None:
        raise Unfit(f"{name} is no public address ({kind})", f"take it out: {PUBLIC_ALONE}")
    return entry


Reachable = AfterValidator(lambda entry: _told(_reachable, entry))


class ServiceSpec(Strict):
    """A service by name."""

    name: str

    @field_validator("name")
    @classmethod
    def _is_known(cls, name: str, info: ValidationInfo) -> str:
        known = (info.context or {}).get("services", [name])
        if name not in known:
            raise PydanticCustomError("word", "service", {"kind": "service", "word": name, "words": list(known)})
        return name


class SettingsSpec(Strict):
    """How the proxy behaves."""

    block_status: Written[Literal[403, 418]] = None


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


def _none_is_empty(value: object) -> object:
    """Take a section whose lines are all comments as its author means it."""
    return [] if value is None else value


type Section[T] = Annotated[Listed[T], BeforeValidator(_none_is_empty)]
DomainEntry = Annotated[EntrySpec, Reachable, _written_out(write_out_host)]
AllowEntry = Annotated[EntrySpec, Reachable, _written_out(write_out_allow)]
DenyEntry = Annotated[EntrySpec, _written_out(write_out_deny)]


class PolicySpec(Strict):
    """A policy file."""

    version: Literal[1] = 1
    services: Section[Annotated[ServiceSpec, BeforeValidator(_named)]] = ()
    domains: Section[DomainEntry] = ()
    allow: Section[AllowEntry] = ()
    deny: Section[DenyEntry] = ()
    settings: SettingsSpec = SettingsSpec()
    # What a service says of itself.
    title: Text = ""
    reason: Text = ""


# Which model stands below a key: where a word is unknown, the words known there are offered.
MODELS: Mapping[str, type[Strict]] = {
    "": PolicySpec,
    "services": ServiceSpec,
    "domains": EntrySpec,
    "allow": EntrySpec,
    "deny": EntrySpec,
    "rules": RuleSpec,
    "path": PathSpec,
    "query": QuerySpec,
    "settings": SettingsSpec,
}
