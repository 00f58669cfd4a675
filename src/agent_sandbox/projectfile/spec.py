"""The model of a project file."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, PlainValidator, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError, PydanticKnownError

from agent_sandbox.policy.file.fields import AtLeastOne, Strict, Written
from agent_sandbox.stack.limits import LIMITS, limit_problem
from agent_sandbox.stack.naming import TITLE_LENGTH
from agent_sandbox.stack.workspace import Ide


def invalid(what: str, hint: str = "") -> PydanticCustomError:
    """Return the error for a value that does not fit."""
    return PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise PydanticKnownError("string_type")
    return value


def _agent(value: object, info: ValidationInfo) -> str:
    name, known = _text(value), (info.context or {}).get("agents")
    if known is not None and name not in known:
        raise PydanticCustomError("word", "agent", {"kind": "agent", "word": name, "words": sorted(known)})
    return name


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise invalid(f"{', '.join(twice)} is listed twice", "keep one of them")
    return names


def _editor(value: object) -> Ide:
    word, words = _text(value), [ide.value for ide in Ide]
    if word not in words:
        raise PydanticCustomError("word", "editor", {"kind": "editor", "word": word, "words": words})
    return Ide(word)


def _title(value: object) -> str:
    title = _text(value)
    if not title.strip() or not title.isprintable() or len(title) > TITLE_LENGTH:
        raise invalid("not a valid name", f"use up to {TITLE_LENGTH} printable characters")
    return title


def _limit(name: str) -> PlainValidator:
    def checked(value: object) -> str:
        text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
        if problem := limit_problem(name, text):
            raise invalid(problem.what, problem.hint)
        return text

    return PlainValidator(checked)


def _none_is_empty(value: object) -> object:
    """Return an empty mapping for a section with only comments."""
    return {} if value is None else value


def _number(kind: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": kind}, {"type": "string"}]})


Agent = Annotated[str, PlainValidator(_agent), WithJsonSchema({"type": "string"})]
Editor = Annotated[Ide, PlainValidator(_editor), WithJsonSchema({"enum": [ide.value for ide in Ide]})]
Title = Annotated[str, PlainValidator(_title), WithJsonSchema({"type": "string", "maxLength": TITLE_LENGTH})]


class LimitsSpec(Strict):
    """What the agent's processes may use."""

    memory: Written[Annotated[str, _limit("memory"), WithJsonSchema({"type": "string"})]] = None
    cpus: Written[Annotated[str, _limit("cpus"), _number("number")]] = None
    pids: Written[Annotated[str, _limit("pids"), _number("integer")]] = None

    @property
    def texts(self) -> dict[str, str]:
        """The limits that are set, by name."""
        values = {name: getattr(self, name) for name in LIMITS}
        return {name: text for name, text in values.items() if text is not None}


class ProjectSpec(Strict):
    """A project file. A key that is absent keeps its default."""

    version: Literal[1] = 1
    agents: Annotated[AtLeastOne[Agent], AfterValidator(_once)] | None = None
    name: Written[Title] = None
    ide: Written[Editor] = None
    limits: Annotated[LimitsSpec, BeforeValidator(_none_is_empty)] = LimitsSpec()


# The model below each key, for hints about unknown keys.
MODELS: Mapping[str, type[BaseModel]] = {"": ProjectSpec, "limits": LimitsSpec}
