"""An entry of the section `tests`: a request, and whether the policy should allow it."""

import re
from typing import Annotated, ClassVar, Self

from pydantic import PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.file.fields import BodySize, Strict, Text, Written, fits
from agent_sandbox.policy.file.short_form import HOW
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
