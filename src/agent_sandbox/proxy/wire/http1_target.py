"""Parse the request target: only a path inside a tunnel, only a full `http://` URL outside of one."""

import re

from msgspec import Struct

from agent_sandbox.policy import Ambiguous, parse_authority
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.http1_head import BadHeadError, RequestHead

ABSOLUTE = re.compile(r"http://(?P<authority>[^/?#@]+)(?P<path>[/?].*)?", re.IGNORECASE)
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


# A client that has a second proxy configured sends it such a request through the first one.
ANOTHER_PROXY = (
    "{}, as for another proxy, but the sandbox's proxy is the only one: "
    "unset the variable (such as http_proxy) or the option that names the other"
)


class Target(Struct, frozen=True, kw_only=True):
    """The path, and outside of a tunnel also host and port."""

    host: str = ""
    port: int = 0
    path: str


def split_target(head: RequestHead, tunnel: Tunnel) -> Target:
    """Parse the target of `head`. Raises `BadHeadError`."""
    if head.method == "CONNECT" and tunnel.carries is not Carries.PROXY:
        raise BadHeadError(ANOTHER_PROXY.format("CONNECT"))
    if head.method == "CONNECT":
        raise BadHeadError("CONNECT is valid only as the first request to the proxy")
    if head.host is None:
        raise BadHeadError("no Host header")
    if tunnel.carries is Carries.PROXY:
        return _absolute(head)
    if head.target.startswith("/"):
        return Target(path=head.target)
    if SCHEME.match(head.target):
        raise BadHeadError(ANOTHER_PROXY.format("a full URL"))
    raise BadHeadError(f"the request target {head.target[:40]!r} is not a path")


def _absolute(head: RequestHead) -> Target:
    found = ABSOLUTE.fullmatch(head.target)
    if found is None and head.target.startswith("/"):
        raise BadHeadError("this is a proxy: send CONNECT, or a request with a full http:// URL")
    if found is None:
        raise BadHeadError("the proxy accepts only http:// URLs here; use CONNECT for https")
    try:
        host, port = parse_authority(found["authority"], default_port=80)
    except Ambiguous as doubt:
        raise BadHeadError(f"ambiguous: {doubt}") from doubt
    path = found["path"] or "/"
    return Target(host=host, port=port, path=path if path.startswith("/") else f"/{path}")
