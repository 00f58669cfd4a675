"""Parse `host:port` strictly: no user name, no spaces, no ambiguity."""

import re

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.host import canonical_host
from agent_sandbox.policy.text import safe_repr

AUTHORITY = re.compile(r"(?P<host>\[[^\[\]@]*\]|[^\[\]:@]*)(?::(?P<port>.*))?", re.DOTALL)
PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)


def parse_authority(text: str, *, default_port: int | None) -> tuple[str, int]:
    """Return the canonical host and the port, or raise Ambiguous. Without a default, the port is required.

    >>> parse_authority("Example.com:8443", default_port=None)
    ('example.com', 8443)
    """
    match = AUTHORITY.fullmatch(text)
    if match is None:
        raise Ambiguous(f"not `host:port`: {safe_repr(text)}")
    return canonical_host(match["host"]), _port(match["port"], default_port)


def _port(text: str | None, default: int | None) -> int:
    if text is None and default is not None:
        return default
    if text is None:
        raise Ambiguous("the port is missing")
    if not PORT.fullmatch(text) or int(text) > 65535:
        raise Ambiguous(f"not a port: {safe_repr(text)}")
    return int(text)
