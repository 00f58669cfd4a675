"""A connection to a server: dialled and checked, with TLS that is verified for the host of the tunnel."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from OpenSSL import SSL

from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.lane.byte_stream import ByteStream
from agent_sandbox.proxy.lane.steps import Steps
from agent_sandbox.proxy.mitm.session import Engine
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.secrets.redaction import Echoes
from agent_sandbox.proxy.tls.contexts import HTTP1, TlsStart
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.upstream.dialler import DialError, NotReached
from agent_sandbox.proxy.upstream.proxy_connect import Streams

ELSEWHERE = NotReached("the proxy connects only to the destination that was decided")
REPLACED = NotReached("the policy was reloaded while the proxy connected")
NO_TLS_OBJECT = NotReached("an error in the proxy prevented TLS with the server")
NO_TLS = (b"wrong version number", b"packet length too long", b"record layer failure")


@dataclass(slots=True)
class Upstream:
    """One server connection. `echoes` are those of the secrets that were sent on it, None before the first request."""

    stream: ByteStream
    host: str
    port: int
    echoes: Echoes | None = None

    def fits(self, exchange: Exchange) -> bool:
        """Return whether the request may be sent here: to this server, with the same secrets as before."""
        head = exchange.forwarded
        same = head is not None and (head.host, head.port) == (self.host, self.port)
        return same and self.stream.is_usable and self.echoes in (None, exchange.echoes)


async def reach(
    exchange: Exchange, tunnel: Tunnel, engine: Engine, steps: Steps, on_data: Callable[[], None]
) -> Upstream:
    """Connect to where an allowed request goes. Raises `DialError`."""
    head = exchange.forwarded
    inside = tunnel.carries is Carries.PROXY or (head and (head.host, head.port) == (tunnel.host, tunnel.port))
    if head is None or tunnel.refused is not None or not inside:
        raise DialError(ELSEWHERE)
    reader, writer = await _dial(exchange, head.host, head.port, engine)
    with _aborted_on_error(writer):
        stream = ByteStream(writer, on_data=on_data, crowded=lambda: engine.crowded > 1 or bool(exchange.echoes))
        stream.take_over(reader)
        if tunnel.carries is Carries.TLS:
            await _secure(stream, engine, steps)
    return Upstream(stream, head.host, head.port)


async def _dial(exchange: Exchange, host: str, port: int, engine: Engine) -> Streams:
    """Connect, unless a policy loaded in the meantime denies it."""
    before = engine.policy()
    streams = await engine.dialler.dial(host, port)
    revision = PolicyTransition(old=before, new=engine.policy()).granting(exchange.grants)
    with _aborted_on_error(streams[1]):
        if before is not engine.policy() and not revision.decide_connect(host, port).allowed:
            raise DialError(REPLACED)
    return streams


async def _secure(stream: ByteStream, engine: Engine, steps: Steps) -> None:
    start = TlsStart()
    if not steps.run("tls_start_server", start) or start.connection is None:
        raise DialError(NO_TLS_OBJECT)
    try:
        async with asyncio.timeout(engine.limits.hello_seconds):
            await stream.handshake(start.connection)
    except TimeoutError:
        raise DialError(NotReached("the server did not complete the TLS handshake in time")) from None
    except SSL.Error as error:
        raise DialError(NotReached(why_failed(error, start.connection))) from error
    except ConnectionError:
        raise DialError(NotReached("connection closed")) from None
    if stream.alpn not in (b"", HTTP1):
        raise DialError(NotReached("the server chose a protocol that was not offered"))


def why_failed(error: SSL.Error, tls: SSL.Connection) -> str:
    """Describe why a TLS handshake failed."""
    last: Any = error.args[0][-1][-1] if error.args and error.args[0] else ""
    if last == "certificate verify failed":
        lib: Any = SSL._lib  # type: ignore[attr-defined]  # noqa: SLF001 - pyOpenSSL has no public call
        code = lib.SSL_get_verify_result(tls._ssl)  # noqa: SLF001
        text: Any = SSL._ffi.string(lib.X509_verify_cert_error_string(code))  # type: ignore[attr-defined] # noqa: SLF001
        return f"Certificate verify failed: {text.decode()}"
    if str(last).encode() in NO_TLS:
        return "The remote server does not speak TLS."
    return f"OpenSSL {error!r}"


@contextlib.contextmanager
def _aborted_on_error(writer: asyncio.StreamWriter) -> Iterator[None]:
    is_done = False
    try:
        yield
        is_done = True
    finally:
        if not is_done:
            writer.transport.abort()
