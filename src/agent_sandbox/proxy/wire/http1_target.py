"""Which form a request target may have, and what it names.

Inside a tunnel: the path alone. To the proxy itself: a whole `http://` URL, the only form that says where to go.
"""

import re
from dataclasses import dataclass

from agent_sandbox.policy import Ambiguous, parse_authority
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.http1_head import BadHeadError, Head

ABSOLUTE = re.compile(r"http://(?P<authority>[^/?#@]+)(?P<path>[/?].*)?", re.IGNORECASE)
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The path, and where the request says that it goes; inside a tunnel it does not say."""

    host: str = ""
    port: int = 0
    path: str


def split_target(head: Head, tunnel: Tunnel) -> Target:
    """Take the target of `head` apart. Raises `BadHeadError`."""
    if head.method == "CONNECT":
        raise BadHeadError("CONNECT where a request is wanted")
    if head.host is None:
        raise BadHeadError("no Host header")
    if tunnel.carries is Carries.PROXY:
        return _absolute(head)
    if head.target.startswith("/"):
        return Target(path=head.target)
    if SCHEME.match(head.target):
        raise BadHeadError("a whole URL inside a tunnel; it takes a path")
    raise BadHeadError(f"the target {head.target[:40]!r} is no path")


def _absolute(head: Head) -> Target:
    found = ABSOLUTE.fullmatch(head.target)
    if found is None and head.target.startswith("/"):
        raise BadHeadError("this is a proxy: it takes CONNECT, and requests with a whole http:// URL")
    if found is None:
        raise BadHeadError("the proxy takes http:// URLs alone; https goes through CONNECT")
    try:
        host, port = parse_authority(found["authority"], default_port=80)
    except Ambiguous as doubt:
        raise BadHeadError(f"ambiguous: {doubt}") from doubt
    path = found["path"] or "/"
    return Target(host=host, port=port, path=path if path.startswith("/") else f"/{path}")
