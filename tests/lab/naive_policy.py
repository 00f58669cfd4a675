"""The meaning of the language by other means: no index, no merging, regular expressions on plain data."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent_sandbox.policy import Effect, Operation, Request
from policy_strategies import Entry


@dataclass(frozen=True, kw_only=True)
class NaiveLayer:
    """One layer: its rules as dumped, and the hosts whose allowed requests it replaces."""

    rules: list[Entry]
    tighten: bool = False
    replaced: frozenset[str] = frozenset()


def naive_effect_of_layers(layers: Sequence[NaiveLayer], request: Request) -> Effect:
    """Read them as the documentation tells it: lowest first; allows are dropped, denies and restrictions stay."""
    rules: list[Entry] = []
    for layer in layers:
        kept = (_beside(rule, layer.replaced) for rule in rules)
        rules = [rule for rule in kept if rule] + [
            rule for rule in layer.rules if rule["effect"] == "deny" or not layer.tighten
        ]
    narrowing = [layer for layer in layers if layer.tighten]
    within = all(
        any(naive_match(rule, request) for rule in layer.rules if rule["effect"] == "allow") for layer in narrowing
    )
    return naive_effect(rules, request) if within else Effect.DENY


def _beside(rule: Entry, replaced: frozenset[str]) -> Entry | None:
    """Return what remains of a rule under a higher layer. Each host of a list counts separately."""
    if rule["effect"] == "deny":
        return rule
    hosts = rule.get("listed", [rule["host"]])
    # `.x` is `x` and `*.x`.
    parts = [part for host in hosts for part in ([host[1:], f"*{host}"] if host.startswith(".") else [host])]
    wider = [part for one in replaced for part in ([one[1:], f"*{one}"] if one.startswith(".") else [one])]
    return {**rule, "listed": [part for part in parts if not any(_is_within(part, wide) for wide in wider)]}


def _is_within(host: str, wide: str) -> bool:
    return host == wide or (wide.startswith("*") and host.removeprefix("*.").endswith(wide[1:]))


def naive_effect(rules: list[Entry], request: Request) -> Effect:
    """Look at every rule: a deny wins, and without an allow it is denied."""
    matching = {rule["effect"] for rule in rules if naive_match(rule, request)}
    return Effect.ALLOW if matching == {"allow"} else Effect.DENY


def naive_match(rule: Entry, request: Request) -> bool:
    among = all if rule["effect"] == "allow" else any
    pairs = sorted(piece.split("=") for piece in request.query.split("&") if piece)
    listed = rule.get("query", pairs)
    sent = {value for name, value in request.headers if name.lower() == "x"}
    headers = {header for _, header in rule.get("headers", {}).items()}
    return (
        any(re.fullmatch(naive_host(host), request.host) for host in rule.get("listed", [rule["host"]]))
        and request.port in rule.get("ports", [request.port])
        and request.scheme in rule.get("schemes", [request.scheme])
        and request.method in rule.get("methods", [request.method])
        and among(naive_path(rule, way) for way in naive_readings(request.path))
        and (not headers or (sent == headers if rule["effect"] == "allow" else headers <= sent))
        and (request.body_size or 0) <= rule.get("max_body", math.inf)
        and ("transform" not in rule or request.secrets)
        and ("graphql" not in rule or naive_operation(rule["graphql"], request.operation))
        and (pairs == listed if rule["effect"] == "allow" else all(pair in pairs for pair in listed))
    )


def naive_operation(listed: Entry, asked: Operation | None) -> bool:
    return asked is not None and not asked.doubt and all(field in listed.get(asked.kind, ()) for field in asked.fields)


def naive_host(pattern: str) -> str:
    star = re.escape(pattern).replace(r"\*\.", r".+\.")
    return rf"(?:.+\.)?{re.escape(pattern[1:])}" if pattern.startswith(".") else star


def naive_readings(path: str) -> set[str]:
    read = path.replace("%40", "@")
    slashed = {read, read.replace("%2F", "/")}
    return slashed | {re.sub(";[^/]*", "", way) for way in slashed}


def naive_path(rule: Entry, path: str) -> bool:
    ((kind, text),) = rule.get("path", {"prefix": "/"}).items()
    patterns = {
        "exact": re.escape(text),
        "prefix": re.escape(text) + ("(?:.*)" if text.endswith("/") else "(?:/.*)?"),
        "glob": naive_glob(text),
    }
    return re.fullmatch(patterns[kind], path, re.IGNORECASE if rule["effect"] == "deny" else 0) is not None


def naive_glob(text: str) -> str:
    parts = {"**": "(?:/[^/]*)*", "*": "/[^/]+"}
    segments = [parts.get(part, "/" + re.escape(part).replace(r"\*", "[^/]*")) for part in text.split("/")[1:]]
    if text.endswith("/**"):
        segments[-1] = "(?:/[^/]*)+"
    return "".join(segments)
