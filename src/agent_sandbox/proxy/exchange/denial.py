"""What a client is told when a request goes no further. The same words on every way out of the proxy."""

import json
from dataclasses import dataclass
from http import HTTPStatus

from agent_sandbox.printable import printable

MARK = b"x-agent-sandbox"
LONGEST_PHRASE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """Why a request was not forwarded. 403 and 400 are decisions; 502 says that the other side could not be reached."""

    reason: str
    status: int = 403
    host: str = ""
    method: str = ""
    path: str = ""
    rule: str | None = None
    near_miss: str = ""
    hint: str = ""

    @property
    def blocked(self) -> bool:
        """Whether the proxy said no; otherwise it tried, and failed."""
        return self.status < 500


UNDECIDED = Denial(reason="the proxy could not decide this request; that is a fault of the proxy, not of the policy")


@dataclass(frozen=True, slots=True)
class Page:
    """An HTTP answer: status, fields and body."""

    status: int
    fields: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def http1(self, phrase: bytes = b"") -> bytes:
        """Return the bytes of an HTTP/1.1 answer after which the connection is closed."""
        phrase = phrase or _phrase(self.status)
        head = b"".join(b"%s: %s\r\n" % field for field in self.fields)
        return b"HTTP/1.1 %d %s\r\n%sconnection: close\r\n\r\n%s" % (self.status, phrase, head, self.body)


def page(denial: Denial, accept: str = "") -> Page:
    """Render `denial` for a client that asked for `accept`: JSON where it names it or nothing, else words."""
    wants_json = "json" in accept.lower() or not accept
    body = (_as_json(denial) if wants_json else _as_text(denial)).encode("utf-8", "backslashreplace")
    kind = b"application/json" if wants_json else b"text/plain; charset=utf-8"
    fields = (
        (MARK, b"blocked" if denial.blocked else b"failed"),
        (b"content-type", kind),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    )
    return Page(denial.status, fields, body)


def in_a_phrase(denial: Denial) -> bytes:
    """Put `denial` where a status has its phrase: of an answer to CONNECT, most clients show that and nothing else."""
    told = printable(f"Blocked by agent-sandbox: {denial.reason}"[:LONGEST_PHRASE])
    return told.encode("ascii", "backslashreplace")[:LONGEST_PHRASE]


def _as_json(denial: Denial) -> str:
    fields = {
        "blocked": denial.blocked,
        "host": denial.host,
        "method": denial.method,
        "path": denial.path,
        "reason": denial.reason,
        "rule": denial.rule,
        "near_miss": denial.near_miss,
        "hint": denial.hint,
    }
    return json.dumps(fields) + "\n"


def _as_text(denial: Denial) -> str:
    what = "Blocked" if denial.blocked else "Not reached"
    lines = [f"{what} by agent-sandbox: {' '.join(filter(None, (denial.method, denial.host + denial.path)))}"]
    lines.append(f"Reason: {denial.reason}")
    if denial.rule:
        lines.append(f"Rule: {denial.rule}")
    if denial.near_miss and denial.near_miss not in denial.reason:
        lines.append(f"Nearest: {denial.near_miss}")
    if denial.hint:
        lines.append(f"To allow it: {denial.hint}")
    return "\n".join(map(printable, lines)) + "\n"


def _phrase(status: int) -> bytes:
    return HTTPStatus(status).phrase.encode()
