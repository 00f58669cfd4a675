"""The page at http://agent-sandbox.internal/. It tells the agent what it may reach and why its requests were denied.

The proxy itself serves the page. It forwards nothing, whatever the policy says about the name.
"""

import json
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from agent_sandbox.policy import Ambiguous, Cause, Effect, Policy, Request, parse_request
from agent_sandbox.policy.http.git_requests import with_query
from agent_sandbox.printable import printable
from agent_sandbox.proxy.exchange.denial import OWN_HOST, Page

TEXT_PATH, JSON_PATH = "/", "/status.json"
DENIALS, SEARCHED = 20, 200
RULES = 200
# The fields of an audit record that decide a request.
ASKED = ("cause", "scheme", "host", "port", "method", "path", "tool")
MESSAGE = (
    "This is agent-sandbox. Requests leave this machine only through its proxy, and only as the policy allows.",
    "A response with the header `x-agent-sandbox: blocked` comes from the proxy, not from the server.",
    "Its text says why the request was denied, and after `To allow it` what would allow it.",
    "You cannot change the policy from inside, and no request gets around it. Do not look for a workaround.",
    "If you need what was denied, tell the person you work for what you need and why, and quote that text.",
)

type Denied = dict[str, object]
type Advise = Callable[[Request, Policy], str]


class OwnPage:
    """Answers requests to the sandbox's own name.

    `denials` returns the last audit records of denials, oldest first. `advise` returns what would allow a request.
    """

    def __init__(self, denials: Callable[[int], Sequence[Denied]], advise: Advise) -> None:
        self._denials = denials
        self._advise = advise
        # The last policy shown and its lines, because it may have many rules.
        self._shown: tuple[Policy | None, dict[str, Any]] = (None, {})
        # The same for denials: finding out what would allow a request takes as long as denying it.
        self._advised: dict[tuple[object, ...], str] = {}

    def answer(self, request: Request, policy: Policy, accept: str) -> Page | None:
        """Return the response, or None if the request is not for this page."""
        if (request.host, request.scheme, request.port) != (OWN_HOST, "http", 80):
            return None
        if request.method not in {"GET", "HEAD"}:
            return _page(405, "text/plain", "only GET and HEAD are answered here\n", ((b"allow", b"GET, HEAD"),))
        if request.path not in {TEXT_PATH, JSON_PATH}:
            return _page(404, "text/plain", f"try http://{OWN_HOST}{TEXT_PATH} or http://{OWN_HOST}{JSON_PATH}\n")
        found = self._collect(policy)
        if request.path == JSON_PATH or "json" in accept.lower():
            return _page(200, "application/json", json.dumps(found, indent=2) + "\n")
        return _page(200, "text/plain", _as_text(found))

    def _collect(self, policy: Policy) -> dict[str, Any]:
        if self._shown[0] is not policy:
            self._shown, self._advised = (policy, _lines_of(policy)), {}
        newest: dict[tuple[object, ...], Denied] = {}
        for record in reversed(self._denials(SEARCHED)):
            newest.setdefault((record["method"], record["host"], record["path"]), record)
        last = {tuple(record.get(key) for key in ASKED): record for record in islice(newest.values(), DENIALS)}
        known = self._advised
        self._advised = {
            asked: known[asked] if asked in known else self._advice(record, policy) for asked, record in last.items()
        }
        denials = [_explained(record, self._advised[asked]) for asked, record in last.items()]
        return {"message": list(MESSAGE), **self._shown[1], "denials": denials}

    def _advice(self, record: Denied, policy: Policy) -> str:
        """Return what would allow the request; empty if no rule would, or if that depends on its body."""
        if record["cause"] == Cause.OPERATION or record["host"] == OWN_HOST:
            return ""
        try:
            request = parse_request(
                scheme=str(record["scheme"]),
                host=str(record["host"]),
                port=int(str(record["port"])),
                method=str(record["method"]),
                target=with_query(str(record["path"]), str(record.get("tool"))),
            )
        except Ambiguous:
            return ""
        return self._advise(request, policy)


def _explained(record: Denied, advice: str) -> dict[str, object]:
    shown = {key: record[key] for key in ("time", "method", "scheme", "host", "port", "path", "reason")}
    return {**shown, "to_allow": advice}


def _lines_of(policy: Policy) -> dict[str, Any]:
    rules = policy.rules.rules
    allowed = list(islice((str(rule) for rule in rules if rule.effect is Effect.ALLOW), RULES))
    denied = list(islice((str(rule) for rule in rules if rule.effect is Effect.DENY), RULES))
    return {
        "allowed": allowed,
        "denied": denied,
        "more_rules": len(rules) - len(allowed) - len(denied),
        "restricted_by": [str(restriction.origin) for restriction in policy.rules.restrictions],
        "refusal": policy.refusal,
    }


def _as_text(found: dict[str, Any]) -> str:
    lines = [*found["message"], ""]
    if found["refusal"]:
        lines += [f"Nothing is allowed: {found['refusal']}", ""]
    lines += ["Allowed:", *(f"  {rule}" for rule in found["allowed"] or ["nothing"])]
    if found["denied"]:
        lines += ["Always denied:", *(f"  {rule}" for rule in found["denied"])]
    if found["more_rules"]:
        lines.append(f"  and {found['more_rules']} more rules")
    lines += [f"Further restricted by {layer}" for layer in found["restricted_by"]]
    lines += ["", "Your last denied requests:" if found["denials"] else "None of your requests was denied."]
    for one in found["denials"]:
        lines.append(f"  {one['time']}  {one['method']} {one['host']}{one['path']}: {one['reason']}")
        if one["to_allow"]:
            lines.append(f"    To allow it: {one['to_allow']}")
    return "\n".join(map(printable, lines)) + "\n"


def _page(status: int, kind: str, text: str, more: tuple[tuple[bytes, bytes], ...] = ()) -> Page:
    body = text.encode("utf-8", "backslashreplace")
    fields = (
        (b"content-type", f"{kind}; charset=utf-8".encode()),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        *more,
    )
    return Page(status, fields, body)
