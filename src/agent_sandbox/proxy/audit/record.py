"""The audit record: one line of ASCII JSON with bounded size."""

import json
from datetime import UTC, datetime

from msgspec import Struct

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Effect

LONGEST = {
    "path": 2_048,
    "reason": 1_024,
    "host": 255,
    "method": 32,
    "rule": 255,
    "cause": 16,
    "scheme": 8,
    "tool": 16,
    "mcp": 255,
    "headers": 512,
    "hint": 1_024,
}


class SecretUse(Struct, frozen=True, kw_only=True):
    """One injected secret, by name: in which kind of credential, of which kind of source, and how old its value was."""

    secret: str
    kind: str
    source: str
    age: float


class AuditRecord(Struct, frozen=True):
    """The fields of an audit record. `path` excludes the query, which may contain secrets.

    `cause` classifies a denial: a `Cause` of the policy, `address` if the name resolved to a forbidden address, or ""
    if the request was rejected before the policy was asked. `tool` is the package manager that seems to have sent
    it, or `git push` or `git fetch`. Only a message to an MCP server has the field `mcp`, such as `tools/call search`,
    and only a request with an injected secret the field `secrets`. `headers` has the names of the client's header
    fields, never a value. `encoded` is the length of what looks like encoded data in the URL; it is not written, but
    may be the reason for a `hint`. `failed` says that an allowed request got no response from the server; `reason` says
    why, so it is not written either.
    """

    event: Event
    decision: Effect = Effect.DENY
    rule: str | None = None
    cause: str = ""
    reason: str = ""
    scheme: str = ""
    host: str = ""
    port: int = 0
    method: str = ""
    path: str = ""
    status: int | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    duration_ms: float = 0.0
    client: str = ""
    tool: str = ""
    mcp: str = ""
    headers: str = ""
    secrets: tuple[SecretUse, ...] = ()
    encoded: int = 0
    failed: bool = False


def render(line: AuditRecord, *, now: float, hint: str = "") -> dict[str, object]:
    """Return `line` as a dict for JSON, with its texts truncated and made valid Unicode."""
    time = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    values: dict[str, object] = {"time": time, "event": str(line.event), "decision": line.decision}
    for name in ("rule", "cause", "reason", "scheme", "host", "port", "method", "path", "status", "tool"):
        values[name] = _bounded(name, getattr(line, name))
    for name in ("bytes_in", "bytes_out"):
        values[name] = getattr(line, name)
    values["duration_ms"] = round(line.duration_ms, 1)
    values["client"] = line.client
    if line.mcp:
        values["mcp"] = _bounded("mcp", line.mcp)
    if line.headers:
        values["headers"] = _bounded("headers", line.headers)
    if line.secrets:
        values["secrets"] = [
            {"secret": one.secret, "kind": one.kind, "source": one.source, "age_s": round(one.age)}
            for one in line.secrets
        ]
    if hint:
        values["hint"] = _bounded("hint", hint)
    return values


def encode(values: dict[str, object]) -> bytes:
    r"""Return one ASCII line.

    >>> encode({"path": "/\n\x1b[31m"})
    b'{"path": "/\\n\\u001b[31m"}\n'
    """
    return json.dumps(values).encode("ascii") + b"\n"


def _bounded(name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    # Most texts are ASCII, and need no conversion.
    text = value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    longest = LONGEST[name]
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"
