"""Error responses for clients: the same text for every protocol that the proxy speaks."""

import json
from http import HTTPStatus

from msgspec import Struct

from agent_sandbox.policy.http.host import OWN_HOST
from agent_sandbox.printable import printable

MARK = b"x-agent-sandbox"
LONGEST_PHRASE = 300
# Clients such as pip silently wait as long as the header says. For longer times, the reason in the body helps more.
LONGEST_RETRY = 60
# The code of an error of JSON-RPC: of those that everyone may use.
MCP_CODE = -32003
HELP = f"http://{OWN_HOST}/"


class Denial(Struct, frozen=True, kw_only=True):
    """Why a request failed. 403 and 400 are decisions of the proxy; 502 means that the server could not be reached."""

    reason: str
    status: int = 403
    host: str = ""
    method: str = ""
    path: str = ""
    rule: str | None = None
    near_miss: str = ""
    hint: str = ""
    # Set for a message to an MCP server, with its id: clients expect an error of JSON-RPC.
    is_mcp: bool = False
    mcp_id: str | int | None = None
    # In how many seconds the same request may be allowed; 0 if time changes nothing.
    retry_seconds: int = 0

    @property
    def blocked(self) -> bool:
        """Whether the proxy denied the request. If not, it tried to forward the request and failed."""
        return self.status < 500


UNDECIDED = Denial(reason="the proxy could not decide this request: this is a bug in the proxy, not in the policy")


class Page(Struct, frozen=True):
    """An HTTP response: status, headers and body."""

    status: int
    fields: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def http1(self, phrase: bytes = b"") -> bytes:
        """Return the bytes of an HTTP/1.1 response that announces `Connection: close`."""
        phrase = phrase or _phrase(self.status)
        head = b"".join(b"%s: %s\r\n" % field for field in self.fields)
        return b"HTTP/1.1 %d %s\r\n%sconnection: close\r\n\r\n%s" % (self.status, phrase, head, self.body)


def page(denial: Denial, accept: str = "") -> Page:
    """Render `denial` as JSON if the client's `accept` header names JSON or is empty, else as plain text.

    The denial of an MCP message is always JSON.
    """
    wants_json = "json" in accept.lower() or not accept or denial.is_mcp
    body = (_as_json(denial) if wants_json else _as_text(denial)).encode("utf-8", "backslashreplace")
    seconds = denial.retry_seconds
    kind = b"application/json" if wants_json else b"text/plain; charset=utf-8"
    fields = (
        (MARK, b"blocked" if denial.blocked else b"failed"),
        (b"content-type", kind),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        *(((b"retry-after", b"%d" % seconds),) if 0 < seconds <= LONGEST_RETRY else ()),
    )
    return Page(denial.status, fields, body)


def reason_phrase(denial: Denial) -> bytes:
    """Return `denial` as a reason phrase for the status line: most clients show only that of a failed CONNECT."""
    phrase = printable(f"Blocked by agent-sandbox: {denial.reason}"[:LONGEST_PHRASE])
    return phrase.encode("ascii", "backslashreplace")[:LONGEST_PHRASE]


def _as_json(denial: Denial) -> str:
    advice = f"; to allow it: {denial.hint}" if denial.hint else ""
    fields = {
        "blocked": denial.blocked,
        "host": denial.host,
        "method": denial.method,
        "path": denial.path,
        "reason": denial.reason,
        "rule": denial.rule,
        "near_miss": denial.near_miss,
        "hint": denial.hint,
        "help": HELP,
        # Many API clients print this field of an error, and no other.
        "message": f"{_what(denial)}: {denial.reason}{advice}",
    }
    if denial.is_mcp:
        fields |= {"jsonrpc": "2.0", "id": denial.mcp_id, "error": {"code": MCP_CODE, "message": fields["message"]}}
    return json.dumps(fields) + "\n"


def _as_text(denial: Denial) -> str:
    lines = [f"{_what(denial)}: {' '.join(filter(None, (denial.method, denial.host + denial.path)))}"]
    lines.append(f"Reason: {denial.reason}")
    if denial.rule:
        lines.append(f"Rule: {denial.rule}")
    if denial.near_miss and denial.near_miss not in denial.reason:
        lines.append(f"Nearest rule: {denial.near_miss}")
    if denial.hint:
        lines.append(f"To allow it: {denial.hint}")
    lines.append(f"About this sandbox: {HELP}")
    return "\n".join(map(printable, lines)) + "\n"


def _what(denial: Denial) -> str:
    return f"{'Blocked' if denial.blocked else 'Not forwarded'} by agent-sandbox"


def _phrase(status: int) -> bytes:
    return HTTPStatus(status).phrase.encode()
