"""Lines of a traffic log, as the proxy writes them."""

import json


def denied(asked: str, *, at: str = "10:00:00", **others: object) -> str:
    """Return the line of a denied `METHOD URL`."""
    method, _, url = asked.partition(" ")
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    host, _, port = authority.partition(":")
    values = {
        "time": f"2026-01-02T{at}.000Z",
        "event": "request",
        "decision": "deny",
        "rule": None,
        "cause": "host",
        "reason": "because",
        "scheme": scheme,
        "host": host,
        "port": int(port or {"http": 80, "https": 443}[scheme]),
        "method": method,
        "path": slash + path,
    }
    return json.dumps({**values, **others})
