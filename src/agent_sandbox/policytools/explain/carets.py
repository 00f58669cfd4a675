"""Draw carets below `METHOD URL`, under the parts of a request that a rule does not match."""

from collections.abc import Callable, Iterable, Mapping

from agent_sandbox.policy.engine.rule import Conditions
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import DEFAULT_PORTS, Request
from agent_sandbox.policy.match.glob import glob_follows
from agent_sandbox.policy.match.host_pattern import HostPattern
from agent_sandbox.policy.match.path_pattern import PathKind, PathPattern

Span = tuple[int, int]


def carets(request: Request, parts: Iterable[str], asked: Conditions | None) -> str:
    """Return the line to print below `METHOD URL`; empty if nothing in it differs.

    `asked` are the conditions of the nearest rule: in a host or path, only the part that differs is marked.
    """
    spans = [SPANS[part](request, asked) for part in parts if part in SPANS]
    marked = {place for start, end in spans for place in range(start, max(end, start + 1))}
    return "".join("^" if place in marked else " " for place in range(max(marked, default=-1) + 1))


def _target(request: Request) -> int:
    return len(f"{request.method} {request.url}") - len(request.target)


def _method(request: Request, _: Conditions | None) -> Span:
    return 0, len(request.method)


def _scheme(request: Request, _: Conditions | None) -> Span:
    start = len(request.method) + 1
    return start, start + len(request.scheme)


def _host(request: Request, asked: Conditions | None) -> Span:
    start = _scheme(request, asked)[1] + len("://")
    whole = f"[{request.host}]" if ":" in request.host else request.host
    other = asked.host if asked else None
    return start, start + len(whole) - (len(_common_end(whole, other)) if other else 0)


def _common_end(host: str, other: HostPattern) -> str:
    """Return the common trailing labels, with the dot before them; empty if that is the whole host."""
    labels, theirs = host.split("."), other.name.split(".")
    same = next((n for n in range(len(labels)) if labels[-n - 1 :] != theirs[-n - 1 :]), 0)
    return f".{'.'.join(labels[-same:])}" if same else ""


def _port(request: Request, asked: Conditions | None) -> Span:
    """Return the position of the port, or of the scheme if the port is the default."""
    if request.port == DEFAULT_PORTS[request.scheme]:
        return _scheme(request, asked)
    end = _target(request)
    return end - len(str(request.port)), end


def _path(request: Request, asked: Conditions | None) -> Span:
    start = _target(request)
    same = _common_start(request.path, asked.path) if asked and asked.path else 0
    return start + same, start + len(request.path)


def _common_start(path: str, pattern: PathPattern) -> int:
    """Return the length of the leading segments that match the pattern."""
    segments, read = path.split("/"), readings(path)[0].split("/")
    if pattern.kind is PathKind.GLOB:
        same = glob_follows(pattern.glob, "/".join(read))
    else:
        theirs = pattern.reading.split("/")
        same = next((n for n, pair in enumerate(zip(read, theirs, strict=False)) if pair[0] != pair[1]), len(theirs))
    return len("/".join(segments[:same])) + 1 if 0 < same < len(segments) else 0


def _query(request: Request, _: Conditions | None) -> Span:
    end = len(f"{request.method} {request.url}")
    return end - len(request.query), end


# By the first word of a text from `Rule.differences`.
SPANS: Mapping[str, Callable[[Request, Conditions | None], Span]] = {
    "method": _method,
    "scheme": _scheme,
    "host": _host,
    "port": _port,
    "path": _path,
    "query": _query,
}
