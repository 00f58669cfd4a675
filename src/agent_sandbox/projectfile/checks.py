"""Checks and types of values that several keys of a project file share."""

import re
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError, PydanticKnownError

from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile.parse.checking import place_of
from agent_sandbox.policyfile.text.document import parse_document
from agent_sandbox.policyfile.text.scalars import plain_or_decimal
from agent_sandbox.projectfile.paths import IMAGE

FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
TEXT = WithJsonSchema({"type": "string"})


def invalid(what: str, hint: str = "", at: tuple[str | int, ...] = ()) -> PydanticCustomError:
    """Return the error for a value that does not fit."""
    return PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint, "at": at})


def require_text(value: object) -> str:
    """Return a value that is text; raise an error for any other."""
    if not isinstance(value, str):
        raise PydanticKnownError("string_type")
    return value


def matching(pattern: re.Pattern[str], what: str, hint: str) -> PlainValidator:
    """Return a validator of text that matches the whole pattern."""

    def checked(value: object) -> str:
        if not pattern.fullmatch(require_text(value)):
            raise invalid(f"not {what}: {safe_repr(str(value))}", hint)
        return str(value)

    return PlainValidator(checked)


def place_in(text: str, file: str, *location: str | int) -> str:
    """Return the file, the line and the column of a part of a valid project file."""
    place = place_of(parse_document(text, file=file, plain=plain_or_decimal), location)
    return f"{file}:{place.line}:{place.column}"


BaseImage = Annotated[str, matching(IMAGE, "an image", "write `NAME:TAG` or `REGISTRY/NAME:TAG`"), TEXT]
FileName = Annotated[str, matching(FILE_NAME, "the name of a file", "name a file beside sandbox.yaml"), TEXT]
