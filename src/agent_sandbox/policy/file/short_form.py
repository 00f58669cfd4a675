"""Short spellings of an entry, written out as the long one: one model then checks them all.

>>> write_out_allow("GET https://api.example.com/v1/*")["rules"]
[{'methods': ['GET'], 'schemes': ['https'], 'path': {'glob': '/v1/*'}}]
"""

import re
from collections import defaultdict
from typing import Any

from agent_sandbox.policy.errors import Unfit
from agent_sandbox.policy.http.query import parameters_of
from agent_sandbox.policy.http.request import DEFAULT_PORTS
from agent_sandbox.policy.text import safe_repr

ONE_REQUEST = re.compile(
    r"(?P<method>\S+) +(?P<scheme>https?)://(?P<host>\[[^]]*\]|[^/?:]+)(?::(?P<port>[0-9]{1,5}))?(?P<path>/[^?]*)?(?:\?(?P<query>.*))?"
)
A_HOST = re.compile(r"[\w*-]*(\.[\w-]+)+")
WHAT_A_RULE_SAYS = "write one, such as `methods: [GET]`; if every request is meant, take `rules` out"
HOW = "write a method and a whole address: `GET https://example.com/path`"


def write_out_host(value: object) -> object:
    """`- example.com` is a host with nothing more asked."""
    return {"host": value} if isinstance(value, str) else value


def write_out_deny(value: object) -> object:
    """Under `deny` both spellings go: a host, or one request."""
    if isinstance(value, str) and (" " in value or "://" in value):
        return _request(value, is_exact=False)
    return write_out_host(value)


def write_out_allow(value: object) -> object:
    """Under `allow` each entry is one request."""
    if not isinstance(value, str):
        raise Unfit("an entry of `allow` is one line", f"{HOW}; entries with keys go under `domains`")
    return _request(value, is_exact=True)


def _request(text: str, *, is_exact: bool) -> dict[str, Any]:
    found = ONE_REQUEST.fullmatch(text)
    if found is None:
        raise Unfit(f"{safe_repr(text)} is no `METHOD URL`", _how(text))
    if "#" in (found["query"] or ""):
        raise Unfit(f"{safe_repr(text)} holds a fragment", "leave it out: no client sends it")
    rule: dict[str, Any] = {"methods": [found["method"]], "schemes": [found["scheme"]]}
    # A URL that ends with its host is one for `/`; under `deny` what is left out is everything.
    path = found["path"] or ("/" if is_exact else None)
    if path is not None:
        rule["path"] = {"glob" if "*" in path else "exact": path}
    if found["query"] is not None:
        rule["query"] = {"exact": _values_by_name(found["query"])}
    entry: dict[str, Any] = {"host": found["host"], "rules": [rule]}
    if found["port"] is not None:
        entry["ports"] = [int(found["port"])]
    elif is_exact:
        entry["ports"] = [DEFAULT_PORTS[found["scheme"]]]
    return entry


def _how(text: str) -> str:
    """Return how to write it; a URL that lacks its method alone is shown with one."""
    whole = f"GET {text}"
    if A_HOST.fullmatch(text):
        return f"a host alone goes under `domains`; for one request {HOW}"
    shown = safe_repr(text)[1:-1] == text
    return f"write its method before it: `{whole}`" if shown and ONE_REQUEST.fullmatch(whole) else HOW


def _values_by_name(query: str) -> dict[str, list[str]]:
    values: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in parameters_of(query):
        values[name].append(value)
    return dict(values)


def write_out_rule(value: object) -> object:
    """Make lists of one of `method: get` and `scheme: https`, as older files write them; want one condition."""
    if not isinstance(value, dict):
        return value
    if value.keys() <= {"reason"}:
        raise Unfit("a rule without a condition is about every request", WHAT_A_RULE_SAYS)
    rule: dict[str, Any] = dict(value)
    for one, several, spell in (("method", "methods", str.upper), ("scheme", "schemes", str.lower)):
        if one in rule and several in rule:
            raise Unfit(f"`{one}` and `{several}` say the same thing", f"keep `{several}`")
        if isinstance(rule.get(one), str):
            rule[several] = [spell(rule.pop(one))]
    return rule
