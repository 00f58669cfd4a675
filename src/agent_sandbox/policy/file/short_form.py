"""Expand the short forms of an entry, so that one model validates all forms.

>>> write_out_allow("GET https://api.example.com/v1/*")["rules"]
[{'methods': ['GET'], 'schemes': ['https'], 'path': {'glob': '/v1/*'}}]
>>> write_out_deny("PUT,DELETE https://api.example.com")["rules"]
[{'methods': ['PUT', 'DELETE'], 'schemes': ['https']}]
>>> write_out_deny("https://api.example.com/v1/*")["rules"]
[{'schemes': ['https'], 'path': {'glob': '/v1/*'}}]
"""

import re
from collections import defaultdict
from typing import Any

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.http.query import parameters_of
from agent_sandbox.policy.http.request import DEFAULT_PORTS
from agent_sandbox.policy.match.ssh_address import require_no_ssh
from agent_sandbox.policy.text import safe_repr

ONE_REQUEST = re.compile(
    r"(?:(?P<method>\S+) +)?(?P<scheme>https?)://(?P<host>\[[^]]*\]|[^/?:]+)(?::(?P<port>[0-9]{1,5}))?(?P<path>/[^?]*)?(?:\?(?P<query>.*))?"
)
A_HOST = re.compile(r"[\w*-]*(\.[\w-]+)+")
WHAT_A_RULE_SAYS = "add one, such as `methods: [GET]`; to match every request, remove `rules`"
NO_SCHEME = re.compile(r"(?P<method>\S+ +)?(?P<address>[\w*-]*(?:\.[\w-]+)+(?::[0-9]{1,5})?(?:/\S*)?)")
NETWORK = re.compile(r"(?:\S+ +)?(?:https?://)?[0-9]+(?:\.[0-9]+){3}/[0-9]{1,2}")
NO_NETWORK = "name the hosts: a rule cannot allow a range of addresses; one private host goes under `host_services`"
WHOLE = "write a method and a whole address: `{}`"
HOW = WHOLE.format("GET https://example.com/path")


def write_out_host(value: object) -> object:
    """Expand `- example.com` to a host without conditions."""
    return {"host": value} if isinstance(value, str) else value


def write_out_deny(value: object) -> object:
    """Expand an entry of `deny`, which is a host or one request; a URL without a method means every method."""
    if isinstance(value, str) and (" " in value or "://" in value):
        return _request(value, is_exact=False)
    return write_out_host(value)


def write_out_allow(value: object) -> object:
    """Expand an entry of `allow`, which is one request."""
    if not isinstance(value, str):
        raise InvalidValue("an entry of `allow` has to be one line", f"{HOW}; entries with keys go under `domains`")
    return _request(value, is_exact=True)


def _request(text: str, *, is_exact: bool) -> dict[str, Any]:
    found = ONE_REQUEST.fullmatch(text)
    if found is None or (is_exact and not found["method"]):
        require_no_ssh(text)
        raise InvalidValue(f"not `METHOD URL`: {safe_repr(text)}", _how(text))
    if "|" in (found["method"] or ""):
        whole = f"{found['method'].replace('|', ',')} {text.partition(' ')[2].strip()}"
        raise InvalidValue(f"not `METHOD URL`: {safe_repr(text)}", f"write commas between the methods: `{whole}`")
    if "#" in (found["query"] or ""):
        raise InvalidValue(f"{safe_repr(text)} has a fragment", "remove it: clients never send it")
    rule: dict[str, Any] = {"methods": found["method"].split(",")} if found["method"] else {}
    rule["schemes"] = [found["scheme"]]
    # In an allow, a URL without a path means `/`; in a deny, it means every path.
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
    """Return the hint, with the whole line where it is clear what is missing."""
    if A_HOST.fullmatch(text):
        return f"a host alone goes under `domains`; for one request {HOW}"
    if NETWORK.fullmatch(text):
        return NO_NETWORK
    plain = _without_regex(text)
    if text.removeprefix("GET ").startswith("^http") and safe_repr(plain)[1:-1] == plain:
        return f"a path has `*` and `**`, not regular expressions: `{plain}`"
    if safe_repr(text)[1:-1] != text:
        return HOW
    if bare := NO_SCHEME.fullmatch(text):
        return WHOLE.format(f"{bare['method'] or 'GET '}https://{bare['address']}")
    variants = {
        "add a method": f"GET {text}",
        "write the methods without spaces": re.sub(r", +", ",", text),
        "a WebSocket begins with a GET": re.sub(r"^(?:GET +)?ws(s?)://", r"GET http\1://", text),
    }
    return next((f"{do}: `{whole}`" for do, whole in variants.items() if ONE_REQUEST.fullmatch(whole)), HOW)


def _without_regex(text: str) -> str:
    """Return a regular expression for a URL as a line of `allow`, as far as that is possible."""
    url = text.removeprefix("GET ").removeprefix("^").removesuffix("$").replace("\\", "")
    return f"GET {url.replace('.*', '**')}"


def _values_by_name(query: str) -> dict[str, list[str]]:
    values: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in parameters_of(query):
        values[name].append(value)
    return dict(values)


def write_out_rule(value: object) -> object:
    """Expand `method: get` and `scheme: https` of older files; raise InvalidValue for a rule without a condition."""
    if not isinstance(value, dict):
        return value
    if value.keys() <= {"reason"}:
        raise InvalidValue("a rule without a condition matches every request", WHAT_A_RULE_SAYS)
    rule: dict[str, Any] = dict(value)
    for one, several, spell in (("method", "methods", str.upper), ("scheme", "schemes", str.lower)):
        if one in rule and several in rule:
            raise InvalidValue(f"both `{one}` and `{several}` are set", f"keep `{several}`")
        if isinstance(rule.get(one), str):
            rule[several] = [spell(rule.pop(one))]
    return rule
