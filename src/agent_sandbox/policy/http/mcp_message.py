"""An MCP message: what a client sends to an MCP server, and which methods there are.

Knows the revisions 2024-11-05 (HTTP with SSE) to 2026-07-28.
"""

import re
from dataclasses import dataclass, field
from typing import Literal, get_args, override

LIST, CALL = "tools/list", "tools/call"
# Values of `method` for messages that are neither requests nor notifications of JSON-RPC.
STREAM, END, ANSWER = "stream", "end of session", "answer"
TOOL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:-]{0,127}", re.ASCII)
# Harmless methods that every client needs.
ALWAYS = frozenset(
    {
        "initialize",
        "server/discover",
        "ping",
        LIST,
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/roots/list_changed",
        STREAM,
        END,
        ANSWER,
    }
)
# Further requests of clients.
Asked = Literal[
    "completion/complete",
    "logging/setLevel",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
]
# Requests of servers, which a client answers.
Answered = Literal["elicitation/create", "roots/list", "sampling/createMessage"]
ANSWERED: tuple[str, ...] = get_args(Answered)
Listable = Literal[Asked, Answered]
LISTABLE: tuple[str, ...] = get_args(Listable)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpMessage:
    """What a client sends to an MCP server: a JSON-RPC `method`, or why it is ambiguous in `doubt`.

    `tool` is the name in a `tools/call`. `answers`: it contains an answer to a server's request, not just to a ping.
    """

    method: str = ""
    tool: str = ""
    answers: bool = False
    doubt: str = ""
    # The id of the request, which an error response has to repeat.
    id: str | int | None = field(default=None, compare=False)

    @override
    def __str__(self) -> str:
        return self.doubt or f"{self.method} {self.tool}".rstrip()


# Matches every condition on MCP: if a request is denied even with this message, no body can make it allowed.
ANY_MESSAGE = McpMessage(method="any")
