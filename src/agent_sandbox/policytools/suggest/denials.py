"""Read denials from the audit log. It is untrusted input, because the agent influences it, and reading is bounded."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.audit_event import CONNECTIONS, REQUESTS
from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.explain.advice import entry_for_body
from agent_sandbox.policy.http.git_requests import push_after, with_query
from agent_sandbox.policy.http.host import OWN_HOST
from agent_sandbox.policy.http.mcp_message import CALL, LISTABLE, TOOL, McpMessage
from agent_sandbox.policy.http.request import DEFAULT_PORTS, Request, parse_request
from agent_sandbox.policy.match.private_hosts import why_private
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policytools.suggest.noise_filter import RESERVED, why_not_suggested

# Beyond this number of different requests, further ones are only counted.
MOST_REQUESTS = 10_000
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z", re.ASCII)
# The causes of denials without a matching rule.
WITHOUT_A_RULE = frozenset({"host", "request", "empty", "policy"})
OPERATION = "operation"
MOST_MESSAGES = 100  # different MCP messages; further ones are counted together
MCP = "MCP that no rule lists"
REASONS = {
    "ask": "nobody answered: run agent-sandbox watch",
    "rule": "denied by a rule",
    "ceiling": "denied by a restricting layer",
    "operation": "GraphQL with fields that no rule lists",
    "injection": "allowed only with a secret that the proxy does not have: see `agent-sandbox secret list`",
    "budget": "a budget is used up",
    "address": "the name resolves to an address that the sandbox cannot reach",
}
# How the rule of a grant begins, in the audit log.
GRANT = "grant:"
HTTP_PORT = 80
AMBIGUOUS = "an ambiguous request"
NO_REQUEST = "a connection without a readable request"
TOO_MANY = f"more than {MOST_REQUESTS} different requests"


class Seen(Struct, kw_only=True):
    """How often something was denied, when first and last, an example, and the package manager that seemed to ask."""

    count: int = 0
    first: str = ""
    last: str = ""
    example: str = ""
    tool: str = ""

    def add(self, other: "Seen") -> None:
        """Add another count."""
        self.count += other.count
        self.first = min(filter(None, (self.first, other.first)), default="")
        self.last = max(self.last, other.last)
        self.example = self.example or other.example
        self.tool = self.tool or other.tool


class Denials(Struct, kw_only=True):
    """Requests denied without a matching rule, counts by other reasons, and hosts with unreachable addresses.

    For learning, it also has the requests that were allowed, and those denied for another reason.
    """

    requests: dict[Request, Seen] = {}
    allowed: dict[Request, Seen] = {}
    refused: dict[Request, str] = {}
    others: dict[str, Seen] = {}
    closed: set[str] = set()
    unreadable: int = 0

    def leave_out(self, why: str, seen: Seen) -> None:
        """Add to the count for a reason."""
        self.left_out(why).add(seen)

    def left_out(self, why: str) -> Seen:
        """Return the count for a reason."""
        return self.others.setdefault(why, Seen())


class What(NamedTuple):
    """The parts of a denial in the log by which denials are counted; not validated yet."""

    event: str
    cause: str
    scheme: str
    host: str
    port: int | None
    method: str
    path: str
    tool: str
    mcp: str


def read_denials(lines: Iterable[str]) -> Denials:
    """Return the denials in the lines of an audit log; other lines are ignored."""
    found = Denials()
    _add(_objects(lines, found), found)
    return found


def read_traffic(lines: Iterable[str], *, since: str) -> Denials:
    """Return all requests since a time in UTC, to learn from; one that only a grant allowed counts as denied."""
    found = Denials()

    def recent() -> Iterator[dict[str, Any]]:
        for values in _objects(lines, found):
            time = _text(values, "time")
            if not TIME.fullmatch(time) or time < since:
                continue
            if values["decision"] == "allow" and _text(values, "rule").startswith(GRANT):
                yield {**values, "decision": "deny", "cause": "request"}
            elif values["decision"] == "allow":
                _allow(values, found)
            else:
                yield values

    _add(recent(), found)
    return found


def _objects(lines: Iterable[str], found: Denials) -> Iterator[dict[str, Any]]:
    for line in lines:
        values = _object(line)
        if values is None:
            found.unreadable += bool(line.strip())
        elif not _is_to_the_proxy(values):
            yield values


def _is_to_the_proxy(values: dict[str, Any]) -> bool:
    """Return whether the proxy answered the request itself: no rule allows or denies that."""
    return (values.get("host"), values.get("scheme")) == (OWN_HOST, "http") and values.get("port") == HTTP_PORT


def _allow(values: dict[str, Any], found: Denials) -> None:
    what = _what(values)
    request = _request(what) if what.event in REQUESTS else None
    if request is not None and (request in found.allowed or len(found.allowed) < MOST_REQUESTS):
        _count(values, found.allowed.setdefault(request, Seen()))


def _add(records: Iterable[dict[str, Any]], found: Denials) -> None:
    # An agent repeats its requests: each kind is classified once.
    known: dict[What, Seen | None] = {}
    for values in records:
        if values.get("decision") == "deny":
            what = _what(values)
            seen = known[what] if what in known else _counted(what, found)
            if len(known) < MOST_REQUESTS:
                known[what] = seen
            if seen is not None:
                _count(values, seen)


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
        tool=_text(values, "tool"),
        mcp=_text(values, "mcp"),
    )


def _count(values: dict[str, Any], seen: Seen) -> None:
    time = _text(values, "time")
    time = time if TIME.fullmatch(time) else ""
    example = seen.example or _example(values)
    seen.add(Seen(count=1, first=time, last=time, example=example, tool=_text(values, "tool")))


def _counted(what: What, found: Denials) -> Seen | None:
    """Return the count that such a denial belongs to, or None to ignore it."""
    if what.event in CONNECTIONS | REQUESTS and why_not_suggested(what.host) == RESERVED:
        return found.left_out(RESERVED)
    if what.event in CONNECTIONS:
        return found.left_out(NO_REQUEST)
    if what.event not in REQUESTS:
        return None
    if what.cause == "address" and len(found.closed) < MOST_REQUESTS:
        found.closed.add(what.host)
    request = _request(what)
    if request is None or what.cause not in WITHOUT_A_RULE:
        why = _why(what, request, found)
        if request is not None and len(found.refused) < MOST_REQUESTS:
            found.refused[request] = why
        return found.left_out(why)
    if request in found.requests or len(found.requests) < MOST_REQUESTS:
        return found.requests.setdefault(request, Seen())
    return found.left_out(TOO_MANY)


def _why(what: What, request: Request | None, found: Denials) -> str:
    if what.cause != OPERATION or not what.mcp:
        return REASONS.get(what.cause, AMBIGUOUS)
    method, _, tool = what.mcp.partition(" ")
    known = method in LISTABLE or (method == CALL and TOOL.fullmatch(tool))
    if request is None or not known:
        return MCP
    line = entry_for_body(replace(request, message=McpMessage(method=method, tool=tool)))
    where = "add it to the list under `host_services`" if why_private(request.host) else f"add `{line}` under `domains`"
    why = f"{MCP}; to allow {what.mcp}, {where}"
    return why if why in found.others or len(found.others) < MOST_MESSAGES else MCP


def _request(what: What) -> Request | None:
    """Return the request, parsed as strictly as in the proxy, or None. The log has no query.

    For the request that starts a `git push`, it is the push itself.
    """
    if what.port is None or "?" in what.path:
        return None
    try:
        request = parse_request(
            scheme=what.scheme,
            host=what.host,
            port=what.port,
            method=what.method,
            target=with_query(what.path, what.tool),
            encoded_slash=True,
        )
    except Ambiguous:
        return None
    return push_after(request) or request


def _text(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _example(values: dict[str, Any]) -> str:
    """Return the request as safe text."""
    host, port = _text(values, "host"), values.get("port")
    # The log has a port with every host. The default port is left out, as in a URL.
    unusual = host and isinstance(port, int) and port != DEFAULT_PORTS.get(_text(values, "scheme"))
    shown = f"[{host}]" if ":" in host else host
    where = f"{shown}{f':{port}' if unusual else ''}{_text(values, 'path')}" or _text(values, "reason")
    return f"{safe_repr(_text(values, 'method'))[1:-1]} {safe_repr(where)[1:-1]}".strip()
