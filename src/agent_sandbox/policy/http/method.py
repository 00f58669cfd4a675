"""HTTP methods: which ones a request may have, which ones a rule can name, and the default of an entry."""

import re
from collections.abc import Iterable

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.text import safe_repr

# What an entry without `methods` allows. No rule can name TRACE, which echoes headers, or CONNECT, which opens tunnels.
STANDARD = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
WEBDAV = frozenset(
    {"COPY", "LOCK", "MKCALENDAR", "MKCOL", "MOVE", "PROPFIND", "PROPPATCH", "REPORT", "SEARCH", "UNLOCK"}
)
NAMEABLE = STANDARD | WEBDAV | {"PURGE", "QUERY"}
TOKEN = re.compile(r"[A-Z][A-Z_-]{0,31}", re.ASCII)


def canonical_method(text: str) -> str:
    """Return the method unchanged, or raise Ambiguous. Methods are case-sensitive: `get` is not GET."""
    if text not in NAMEABLE and not TOKEN.fullmatch(text):
        raise Ambiguous(f"not a method: {safe_repr(text)}")
    return text


def with_implied(methods: Iterable[str]) -> frozenset[str]:
    """Return the methods, with HEAD if GET is among them: HEAD returns no more than GET."""
    named = frozenset(methods)
    return named | {"HEAD"} if "GET" in named else named
