"""The traffic log, read for what was denied: bounded, and believed in nothing, for the agent has a hand in it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.request import DEFAULT_PORTS, Request, parse_request
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policytools.suggest.noise_filter import RESERVED, why_no_wish

# More different requests than these are counted, and no longer told apart.
MOST_REQUESTS = 10_000
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z", re.ASCII)
# What holds a request, and what the policy answered to it for want of a rule.
REQUESTS = frozenset({"request", "websocket"})
WITHOUT_A_RULE = frozenset({"host", "request", "empty", "policy"})
CONNECTIONS = frozenset({"connect", "tls", "raw_tunnel", "malformed"})
REASONS = {
    "rule": "a deny says so",
    "ceiling": "a layer that only narrows does not let it through",
    "operation": "GraphQL that asks for more than a rule lists",
    "injection": "it is allowed with a secret that the proxy does not have: see `agent-sandbox secret list`",
    "address": "the name leads to an address that nothing in the sandbox may reach",
}
DOUBTFUL = "it could not be read in one way"
NO_REQUEST = "a connection in which no request could be read"
TOO_MANY = f"more than {MOST_REQUESTS} different requests"


@dataclass(slots=True, kw_only=True)
class Seen:
    """How often something was there, when first and last, and which tool for packages seemed to ask."""

    count: int = 0
    first: str = ""
    last: str = ""
    example: str = ""
    tool: str = ""

    def add(self, other: "Seen") -> None:
        """Count another one in."""
        self.count += other.count
        self.first = min(filter(None, (self.first, other.first)), default="")
        self.last = max(self.last, other.last)
        self.example = self.example or other.example
        self.tool = self.tool or other.tool


@dataclass(slots=True, kw_only=True)
class Denials:
    """What was denied for want of a rule, what for another reason, and the hosts that led where nothing may go."""

    requests: dict[Request, Seen] = field(default_factory=dict)
    others: dict[str, Seen] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    unreadable: int = 0

    def leave_out(self, why: str, seen: Seen) -> None:
        """Count what is not told apart."""
        self.left_out(why).add(seen)

    def left_out(self, why: str) -> Seen:
        """Return what is counted for a reason."""
        return self.others.setdefault(why, Seen())


class What(NamedTuple):
    """What a line says of what was denied, as text where it is text: lines that say the same are counted together."""

    event: str
    cause: str
    scheme: str
    host: str
    port: int | None
    method: str
    path: str


def read_denials(lines: Iterable[str]) -> Denials:
    """Return what the lines of a traffic log say was denied; other lines are passed over."""
    found = Denials()
    # An agent asks the same again and again: what that counts as is found out once.
    known: dict[What, Seen | None] = {}
    for line in lines:
        values = _object(line)
        if values is None:
            found.unreadable += bool(line.strip())
        elif values.get("decision") == "deny":
            what = _what(values)
            seen = known[what] if what in known else _counted(what, found)
            if len(known) < MOST_REQUESTS:
                known[what] = seen
            if seen is not None:
                _count(values, seen)
    return found


def _object(line: str) -> dict[str, Any] | None:
    try:
        values = read_json(line)
    except NotJsonError:
        return None
    return values if isinstance(values, dict) and "decision" in values else None


def _what(values: dict[str, Any]) -> What:
    port = values.get("port")
    return What(
        event=_text(values, "event"),
        cause=_text(values, "cause"),
        scheme=_text(values, "scheme"),
        host=_text(values, "host"),
        port=port if isinstance(port, int) and not isinstance(port, bool) else None,
        method=_text(values, "method"),
        path=_text(values, "path"),
    )


def _count(values: dict[str, Any], seen: Seen) -> None:
    time = _text(values, "time")
    time = time if TIME.fullmatch(time) else ""
    example = seen.example or _example(values)
    seen.add(Seen(count=1, first=time, last=time, example=example, tool=_text(values, "tool")))


def _counted(what: What, found: Denials) -> Seen | None:
    """Return what such a line is counted with; nothing for what the stack asks of itself."""
    if what.event in CONNECTIONS | REQUESTS and why_no_wish(what.host) == RESERVED:
        return found.left_out(RESERVED)
    if what.event in CONNECTIONS:
        return found.left_out(NO_REQUEST)
    if what.event not in REQUESTS:
        return None
    if what.cause == "address" and len(found.closed) < MOST_REQUESTS:
        found.closed.add(what.host)
    request = _request(what) if what.cause in WITHOUT_A_RULE else None
    if request is None:
        return found.left_out(REASONS.get(what.cause, DOUBTFUL))
    if request in found.requests or len(found.requests) < MOST_REQUESTS:
        return found.requests.setdefault(request, Seen())
    return found.left_out(TOO_MANY)


def _request(what: What) -> Request | None:
    """Return the request, read as strictly as the proxy reads it. The log holds no query."""
    if what.port is None or "?" in what.path:
        return None
    try:
        return parse_request(
            scheme=what.scheme,
            host=what.host,
            port=what.port,
            method=what.method,
            target=what.path,
            encoded_slash=True,
        )
    except Ambiguous:
        return None


def _text(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _example(values: dict[str, Any]) -> str:
    """Return what was asked, so that it can be shown: it may hold anything."""
    host, port = _text(values, "host"), values.get("port")
    # A log says a port where there is a host. The usual one of a scheme goes without saying, as in a URL.
    unusual = host and isinstance(port, int) and port != DEFAULT_PORTS.get(_text(values, "scheme"))
    shown = f"[{host}]" if ":" in host else host
    where = f"{shown}{f':{port}' if unusual else ''}{_text(values, 'path')}" or _text(values, "reason")
    return f"{safe_repr(_text(values, 'method'))[1:-1]} {safe_repr(where)[1:-1]}".strip()
