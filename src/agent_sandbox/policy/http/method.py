"""The methods of HTTP: which a request may carry, which a rule may name, what `no methods` means."""

import re
from collections.abc import Iterable

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.text import safe_repr

# What an entry without `methods` allows. TRACE echoes headers back and CONNECT opens tunnels: no rule can name them.
STANDARD = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
WEBDAV = frozenset(
    {"COPY", "LOCK", "MKCALENDAR", "MKCOL", "MOVE", "PROPFIND", "PROPPATCH", "REPORT", "SEARCH", "UNLOCK"}
)
NAMEABLE = STANDARD | WEBDAV | {"PURGE", "QUERY"}
TOKEN = re.compile(r"[A-Z][A-Z_-]{0,31}", re.ASCII)


def canonical_method(text: str) -> str:
    """Return the method as it is; methods are case-sensitive, and `get` is no GET."""
    if text not in NAMEABLE and not TOKEN.fullmatch(text):
        raise Ambiguous(f"{safe_repr(text)} is no method")
    return text


def with_implied(methods: Iterable[str]) -> frozenset[str]:
    """GET implies HEAD, which tells no more than GET would."""
    named = frozenset(methods)
    return named | {"HEAD"} if "GET" in named else named
