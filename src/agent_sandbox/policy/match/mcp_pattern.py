"""The condition on MCP messages: the tools that may be called, and further methods."""

from collections.abc import Sequence
from typing import override

from msgspec import Struct

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.http.mcp_message import ALWAYS, ANSWERED, ANY_MESSAGE, CALL, TOOL, McpMessage
from agent_sandbox.policy.match.glob import segment_matches
from agent_sandbox.policy.text import safe_repr

MAX_STARS = 4
# A character that no name contains: it represents the text that a star of the narrower pattern matches.
ANYTHING = "\0"


class McpPattern(Struct, frozen=True, kw_only=True):
    """Names of tools, in which `*` matches any text, and methods; both sorted."""

    tools: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    @property
    def written(self) -> dict[str, object]:
        """The pattern as data."""
        return {name: list(values) for name, values in (("tools", self.tools), ("methods", self.methods)) if values}

    def takes(self, message: McpMessage | None) -> bool:
        """Return whether the message is allowed. One that was not read or is ambiguous is not."""
        return message is ANY_MESSAGE or (message is not None and not self.differences(message))

    def differences(self, message: McpMessage | None) -> tuple[str, ...]:
        """Return what the message asks for beyond the pattern, as text for a denial."""
        if message is None:
            return ("an MCP message that was not read",)
        if message.doubt:
            return (f"ambiguous MCP ({message.doubt})",)
        is_listed = self._names(message.tool) if message.method == CALL else message.method in {*ALWAYS, *self.methods}
        if not is_listed:
            return (f"mcp {message}",)
        if message.answers and not set(ANSWERED) & set(self.methods):
            return ("mcp answer to a request of the server",)
        return ()

    def _names(self, tool: str) -> bool:
        return any(segment_matches(tuple(name.split("*")), tool) for name in self.tools)

    def within(self, wide: "McpPattern") -> bool:
        """Return whether `wide` matches every message that this pattern matches, as far as this is known."""
        tools = all(wide._names(name.replace("*", ANYTHING)) for name in self.tools)  # noqa: SLF001 - of the same class
        return tools and set(self.methods) <= set(wide.methods)

    @override
    def __str__(self) -> str:
        return " and ".join(f"{name} {', '.join(map(str, values))}" for name, values in self.written.items())  # type: ignore[call-overload] # lists


def mcp_pattern(tools: Sequence[str], methods: Sequence[str]) -> McpPattern:
    """Return the pattern for tools and methods as the policy file lists them.

    >>> str(mcp_pattern(["search", "read_*"], ["prompts/list"]))
    'tools read_*, search and methods prompts/list'
    """
    return McpPattern(tools=tuple(sorted(set(tools))), methods=tuple(sorted(set(methods))))


def parse_tool_name(text: str) -> str:
    """Return the name of a tool, perhaps with stars, or raise InvalidValue."""
    if "**" in text or text.count("*") > MAX_STARS or not TOOL.fullmatch(text.replace("*", "x")):
        raise InvalidValue(f"not a name of a tool: {safe_repr(text)}", "use a name such as `search`, or `read_*`")
    return text
