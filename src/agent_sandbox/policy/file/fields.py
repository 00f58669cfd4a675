"""Pydantic types for the values in a policy file, built on the parsers of the policy engine."""

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError, PydanticKnownError

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.http.body_size import Budget, Rate, parse_body_size, parse_count_rate, parse_size_rate
from agent_sandbox.policy.http.headers import header_pattern
from agent_sandbox.policy.http.method import NAMEABLE
from agent_sandbox.policy.match.host_pattern import HostPattern, parse_host_pattern
from agent_sandbox.policy.match.path_pattern import PathKind, parse_path_pattern

# Bounded because each rule of an entry is checked for each of its ports.
MOST_PORTS = 100

type Listed[T] = Annotated[tuple[T, ...], Field(strict=False)]


def _not_empty[T](values: tuple[T, ...]) -> tuple[T, ...]:
    if not values:
        what, hint = "empty list", "remove it, or add an entry"
        raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
    return values


def _are_few[T](values: tuple[T, ...]) -> tuple[T, ...]:
    if len(values) > MOST_PORTS:
        what, hint = f"an entry has at most {MOST_PORTS} ports", "put the others into another entry"
        raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
    return values


def _is_something(value: object) -> object:
    """Raise an error for a key without a value: ignoring the condition would allow everything."""
    if value is None:
        what, hint = "no value", "remove the key, or give it a value"
        raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
    return value


type Written[T] = Annotated[T | None, BeforeValidator(_is_something)]
type AtLeastOne[T] = Annotated[Listed[T], AfterValidator(_not_empty), Field(json_schema_extra={"minItems": 1})]


def fits[T](parse: Callable[[str], T]) -> Callable[[object], T]:
    """Return a pydantic validator for text from a parser that raises InvalidValue."""

    def checked(value: object) -> T:
        if not isinstance(value, str):
            raise PydanticKnownError("string_type")
        return call_parser(parse, value)

    return checked


def call_parser[V, T](parse: Callable[[V], T], value: V) -> T:
    """Call `parse` and turn InvalidValue into an error that pydantic collects."""
    try:
        return parse(value)
    except InvalidValue as invalid:
        raise PydanticCustomError("invalid_value", "{what}", {"what": invalid.what, "hint": invalid.hint}) from invalid


def written_out(write_out: Callable[[object], object]) -> BeforeValidator:
    """Return a validator that expands a short form before the model checks it."""
    return BeforeValidator(lambda value: call_parser(write_out, value))


def _method(text: str) -> str:
    if text not in NAMEABLE:
        raise PydanticCustomError("word", "method", {"kind": "method", "word": text, "words": sorted(NAMEABLE)})
    return text


def path_of(kind: PathKind) -> PlainValidator:
    """Return the validator for path patterns of this kind."""
    return PlainValidator(fits(lambda text: parse_path_pattern(kind, text)), json_schema_input_type=str)


def _one_line(text: str) -> str:
    """Return the text in one printable line, fit for logs and terminals."""
    line = " ".join(text.split())
    if not line.isprintable():
        raise PydanticCustomError("invalid_value", "{what}", {"what": "text with characters that cannot be printed"})
    return line


def _listed_value(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _as_headers(named: dict[str, str]) -> dict[str, str]:
    call_parser(header_pattern, named)
    return named


def refused(what: str, hint: str) -> BeforeValidator:
    """Return a validator that rejects a known key with its own message."""

    def refuse(_: object) -> object:
        raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})

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
    PlainValidator(lambda value: call_parser(parse_body_size, value)),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}),
]
CountRate = Annotated[Rate, PlainValidator(fits(parse_count_rate), json_schema_input_type=str)]
SizeRate = Annotated[Rate, PlainValidator(fits(parse_size_rate), json_schema_input_type=str)]
QueryValues = Annotated[AtLeastOne[str], BeforeValidator(_listed_value, json_schema_input_type=str | list[str])]


class Strict(BaseModel):
    """A model without unknown keys and without type conversion."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class BudgetSpec(Strict):
    """How much may pass per time."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    requests: Written[CountRate] = None
    upload: Written[SizeRate] = None
    download: Written[SizeRate] = None

    @property
    def value(self) -> Budget:
        """The budget."""
        return Budget(requests=self.requests, upload=self.upload, download=self.download)
