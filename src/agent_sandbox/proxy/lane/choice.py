"""Choose what serves a client connection: the lane, which speaks HTTP/1.1, or mitmproxy, which speaks HTTP/2.

A client that offers both versions gets HTTP/2 by default, and HTTP/1.1 with `settings: {http1: lane}`.
"""

import asyncio
from typing import Protocol

from agent_sandbox.policy import decide_connect
from agent_sandbox.proxy.exchange.engine import Engine
from agent_sandbox.proxy.lane.session import LaneSession
from agent_sandbox.proxy.mitm.loading import load_session
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.reload.transition import Reviewed
from agent_sandbox.proxy.tls.contexts import HTTP1, HTTP2
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.sniff import RawTunnelError, hello_in


class CannotServeError(Exception):
    """Nothing can serve a connection. The message says why."""


class ClientSession(Reviewed, Protocol):
    """Serves one client connection."""

    async def handle_client(self) -> None:
        """Serve requests until the connection ends."""


async def open_session(
    engine: Engine, tunnel: Tunnel, reader: PeekableReader, writer: asyncio.StreamWriter
) -> ClientSession:
    """Return what serves the connection, by its first bytes and the policy in force.

    Raises `RawTunnelError` if its ClientHello cannot be read, `CannotServeError`.
    """
    policy = engine.policy()
    if tunnel.carries is not Carries.TLS or not gets_http2(reader.ahead, http1=policy.settings.http1):
        return LaneSession(engine, tunnel, reader, writer)
    session = await load_session()
    if isinstance(session, str):
        raise CannotServeError(session)
    if tunnel.decision is not None and engine.policy() is not policy:  # a reload does not review this connection yet
        tunnel.decision = decide_connect(engine.policy(), host=tunnel.host, port=tunnel.port)
    return session(engine, tunnel, reader, writer)


def gets_http2(data: bytes, *, http1: str) -> bool:
    """Return whether a client gets HTTP/2, by its ClientHello and the setting `http1`: with `lane`, only if it must.

    Raises `RawTunnelError` if `data` does not begin with a whole, well-formed ClientHello.
    """
    hello = hello_in(data)
    if hello is None:
        raise RawTunnelError("the ClientHello is incomplete")
    offered = _offered(hello.protocols)
    return HTTP2 in offered and not (HTTP1 in offered and http1 == "lane")


def _offered(extension: bytes) -> set[bytes]:
    """Return the names in an ALPN extension. OpenSSL refuses a malformed one later."""
    names, at = set(), 2
    while at < len(extension):
        end = at + 1 + extension[at]
        names.add(extension[at + 1 : end])
        at = end
    return names
