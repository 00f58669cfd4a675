"""The condition `mcp` of the policy file: the tools that may be called, and further methods."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import ConfigDict, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from agent_sandbox.policy.file.fields import AtLeastOne, Strict, fits
from agent_sandbox.policy.http.mcp_message import Listable
from agent_sandbox.policy.match.mcp_pattern import McpPattern, mcp_pattern, parse_tool_name

# A message is sent by POST, a stream opened by GET, a session ended by DELETE.
MCP_METHODS = ("POST", "GET", "DELETE")
ToolName = Annotated[str, PlainValidator(fits(parse_tool_name), json_schema_input_type=str)]


class McpSpec(Strict):
    """The tools of an MCP server that may be called, and methods other than those that every client needs."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    tools: AtLeastOne[ToolName] = ()
    methods: AtLeastOne[Listable] = ()

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not self.model_fields_set:
            what, hint = "`mcp` names no tool", "write `mcp: {tools: [search]}`"
            raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
        return self

    @property
    def pattern(self) -> McpPattern:
        """The lists as a pattern."""
        return mcp_pattern(self.tools, self.methods)


def require_mcp_methods(methods: Sequence[str], *, has_graphql: bool) -> None:
    """Raise an error for conditions that can never match together with `mcp`."""
    if not set(methods) <= set(MCP_METHODS):
        what, hint = f"`mcp` works only with {', '.join(MCP_METHODS)}", "remove `methods`"
        raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint, "at": ("methods",)})
    if has_graphql:
        what, hint = "a body is never both GraphQL and MCP", "write two rules"
        raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint, "at": ("graphql",)})
