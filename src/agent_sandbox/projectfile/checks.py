"""Checks and types of values that several keys of a project file share."""

import re
from typing import Annotated

from agent_sandbox.policyfile.parse.checking import TEXT, matching, where_is
from agent_sandbox.policyfile.text.document import parse_document
from agent_sandbox.policyfile.text.scalars import plain_or_decimal
from agent_sandbox.projectfile.paths import IMAGE

FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)


def place_in(text: str, file: str, *location: str | int) -> str:
    """Return the file, the line and the column of a part of a valid project file."""
    return where_is(parse_document(text, file=file, plain=plain_or_decimal), file, location)


BaseImage = Annotated[str, matching(IMAGE, "an image", "write `NAME:TAG` or `REGISTRY/NAME:TAG`"), TEXT]
FileName = Annotated[str, matching(FILE_NAME, "the name of a file", "name a file beside sandbox.yaml"), TEXT]
