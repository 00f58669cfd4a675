"""What may stand behind the keys of a policy file: lists, words and patterns, as the engine's own parsers read them."""

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError, PydanticKnownError

from agent_sandbox.policy.errors import Unfit
from agent_sandbox.policy.http.body_size import parse_body_size
from agent_sandbox.policy.http.headers import header_pattern
from agent_sandbox.policy.http.method import NAMEABLE
from agent_sandbox.policy.match.host_pattern import HostPattern, parse_host_pattern
from agent_sandbox.policy.match.path_pattern import PathKind, parse_path_pattern

# Each rule of an entry is looked at for each of its ports.
MOST_PORTS = 100

type Listed[T] = Annotated[tuple[T, ...], Field(strict=False)]


def _not_empty[T](values: tuple[T, ...]) -> tuple[T, ...]:
    if not values:
        what, hint = "an empty list says nothing", "take it out, or fill it"
        raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint})
    return values


def _are_few[T](values: tuple[T, ...]) -> tuple[T, ...]:
    if len(values) > MOST_PORTS:
        what, hint = f"an entry has at most {MOST_PORTS} ports", "write another entry for the rest"
        raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint})
    return values


def _is_something(value: object) -> object:
    """Refuse a key with nothing behind it: a condition that is not there would let everything through."""
    if value is None:
        what, hint = "nothing stands here", "take the key out, or fill it"
        raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint})
    return value


type Written[T] = Annotated[T | None, BeforeValidator(_is_something)]
type AtLeastOne[T] = Annotated[Listed[T], AfterValidator(_not_empty), Field(json_schema_extra={"minItems": 1})]


def fits[T](parse: Callable[[str], T]) -> Callable[[object], T]:
    """Let pydantic collect what a parser finds unfit, together with everything else."""

    def checked(value: object) -> T:
        if not isinstance(value, str):
            raise PydanticKnownError("string_type")
        return told(parse, value)

    return checked


def told[V, T](parse: Callable[[V], T], value: V) -> T:
    """Turn what does not fit into a problem that pydantic collects."""
    try:
        return parse(value)
    except Unfit as unfit:
        raise PydanticCustomError("unfit", "{what}", {"what": unfit.what, "hint": unfit.hint}) from unfit


def written_out(write_out: Callable[[object], object]) -> BeforeValidator:
    """Let a short spelling be written out before it is checked."""
    return BeforeValidator(lambda value: told(write_out, value))


def _method(text: str) -> str:
    if text not in NAMEABLE:
        raise PydanticCustomError("word", "method", {"kind": "method", "word": text, "words": sorted(NAMEABLE)})
    return text


def path_of(kind: PathKind) -> PlainValidator:
    """Read a text as a pattern of this kind."""
    return PlainValidator(fits(lambda text: parse_path_pattern(kind, text)), json_schema_input_type=str)


def _one_line(text: str) -> str:
    """Make one printable line of a text that ends up in logs and terminals."""
    line = " ".join(text.split())
    if not line.isprintable():
        raise PydanticCustomError("unfit", "{what}", {"what": "a text with characters that cannot be shown"})
    return line


def _listed_value(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _as_headers(named: dict[str, str]) -> dict[str, str]:
    told(header_pattern, named)
    return named


def refused(what: str, hint: str) -> BeforeValidator:
    """Let a key be known here for its refusal alone, in words of its own."""

    def refuse(_: object) -> object:
        raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint})

    return BeforeValidator(refuse)


Port = Annotated[int, Field(ge=1, le=65535)]
Ports = Annotated[
    Listed[Port],
    AfterValidator(_not_empty),
    AfterValidator(_are_few),
    Field(json_schema_extra={"minItems": 1, "maxItems": MOST_PORTS}),
]
Method = Annotated[str, PlainValidator(fits(_method)), WithJsonSchema({"enum": sorted(NAMEABLE)})]
Host = Annotated[HostPattern, PlainValidator(fits(parse_host_pattern), json_schema_input_type=str)]
Text = Annotated[str, Field(max_length=1000), AfterValidator(_one_line)]
Headers = Annotated[dict[str, str], AfterValidator(_as_headers)]
BodySize = Annotated[
    int,
    PlainValidator(lambda value: told(parse_body_size, value)),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}),
]
QueryValues = Annotated[AtLeastOne[str], BeforeValidator(_listed_value, json_schema_input_type=str | list[str])]


class Strict(BaseModel):
    """No key that is not named here, no value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
