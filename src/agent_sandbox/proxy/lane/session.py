"""One client connection: TLS, one request after the other, and its end."""

import asyncio

from OpenSSL import SSL

from agent_sandbox.proxy.connection.byte_stream import ByteStream
from agent_sandbox.proxy.exchange.denial import Denial, page
from agent_sandbox.proxy.exchange.engine import LINGER_SECONDS, Engine
from agent_sandbox.proxy.exchange.review import outlived, revoke
from agent_sandbox.proxy.exchange.steps import Steps
from agent_sandbox.proxy.lane.interruptible import AbortedError, ClientLeftError
from agent_sandbox.proxy.lane.serving import Serving
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.tls.contexts import HTTP1, TlsStart
from agent_sandbox.proxy.tls.failure import explain_client
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.http1_head import BadHeadError, RequestHead, find_request_end, parse_request

CHECK_SECONDS = 1.0


class LaneSession:
    """Serves one client connection over HTTP/1.1."""

    def __init__(self, engine: Engine, tunnel: Tunnel, reader: PeekableReader, writer: asyncio.StreamWriter) -> None:
        self._engine = engine
        self._tunnel = tunnel
        self._reader = reader
        self._transport = writer.transport
        self._loop = asyncio.get_running_loop()
        self._steps = Steps(engine.hooks, tunnel, engine.record)
        self._client = ByteStream(writer, on_data=self._from_client, crowded=lambda: engine.crowded > 1)
        self._serving = Serving(engine, tunnel, self._client, self._steps, self._from_server)
        self._client.on_end = lambda: self._serving.phase.interrupt(ClientLeftError())
        self._active = self._loop.time()
        self._idle = self._loop.call_later(engine.limits.idle_seconds, self._check_idle)

    async def handle_client(self) -> None:
        """Serve requests until the connection ends."""
        self._engine.sessions.add(self)
        try:
            self._client.take_over(*self._reader.release())
            if await self._secure():
                while await self._serve_next():
                    pass
            self._client.close()
        except ConnectionError:
            self.abort()  # the client has left
        except Exception as error:  # noqa: BLE001 - recorded, and nothing more is sent
            self._steps.fault(f"error in the protocol engine: {error}", error)
            self.abort()
        finally:
            self._engine.sessions.discard(self)
            self._idle.cancel()
            self._serving.drop_upstream()

    def abort(self) -> None:
        """Reset the connections to the client and to the server, which ends the request in progress."""
        self._transport.abort()
        if self._serving.upstream is not None:
            self._serving.upstream.stream.reset()

    async def review(self, revision: PolicyTransition) -> bool:
        """End the request and the server connection that the new policy denies.

        Return whether the request, or the client connection, was ended.
        """
        exchange, upstream = self._serving.exchange, self._serving.upstream
        if self._transport.is_closing():
            return False
        revision = revision.granting(exchange.grants if exchange else ())
        waited = exchange is not None and exchange.waiting is not None
        is_outlived = outlived(self._tunnel, revision, waited=waited)
        denial = revoke(exchange, revision) if exchange else None
        if denial is not None:
            self._serving.phase.interrupt(AbortedError(denial))
        if upstream and not revision.decide_connect(upstream.server.host, upstream.server.port).allowed:
            upstream.stream.reset()
        if is_outlived and exchange is None:
            self.abort()
        elif is_outlived or denial is not None:
            # Leave the client time to read the reason.
            self._loop.call_later(LINGER_SECONDS, self._transport.abort)
        return is_outlived or denial is not None

    def _from_client(self) -> None:
        self._active = self._loop.time()
        self._reader.place.used()

    def _from_server(self) -> None:
        self._active = self._loop.time()
        self._reader.place.served()

    def _check_idle(self) -> None:
        """Close the connection after a time in which neither side sent anything."""
        exchange = self._serving.exchange
        left = self._active + self._engine.limits.idle_seconds - self._loop.time()
        if left <= 0 and not (exchange and exchange.waits):
            self.abort()
        else:
            self._idle = self._loop.call_later(max(left, CHECK_SECONDS), self._check_idle)

    async def _secure(self) -> bool:
        """Do the TLS handshake with the client, if there is TLS in the tunnel. Return whether it succeeded."""
        if self._tunnel.carries is not Carries.TLS:
            return True
        start = TlsStart(protocols=(HTTP1,))
        if not self._steps.run("tls_start_client", start) or start.connection is None:
            return False
        try:
            await self._client.handshake(start.connection)
        except (SSL.Error, OSError) as error:
            self._steps.run("tls_failed_client", self._why_failed(error))
            return False
        return self._steps.run("tls_established_client", start)

    def _why_failed(self, error: SSL.Error | OSError) -> str:
        host = self._tunnel.host
        if isinstance(error, OSError):
            return f"The client disconnected during the handshake; it may not trust the proxy's certificate for {host}"
        return explain_client(error, host)

    async def _serve_next(self) -> bool:
        """Serve the next request. Return whether another one may follow."""
        try:
            head = await self._next_head()
            return head is not None and await self._serving.serve(head)
        except BadHeadError as bad:
            self._steps.run("malformed", str(bad))
            denial = Denial(reason=str(bad), status=bad.status, host=self._tunnel.host)
            self._client.write(page(denial).http1())
            await self._client.linger(LINGER_SECONDS)
            return False

    async def _next_head(self) -> RequestHead | None:
        """Return the next head, None if the client has left. Raises `BadHeadError`."""
        client, limits = self._client, self._engine.limits
        if client.buffer:
            await asyncio.sleep(0)  # pipelined requests wait for their turn, too
        while not client.buffer:
            if not await client.more():
                return None
        end = find_request_end(bytes(client.buffer), limits)
        if not end:
            end = await self._rest_of_head()
        return parse_request(bytes(client.buffer.maybe_extract_at_most(end) or b""), limits) if end else None

    async def _rest_of_head(self) -> int:
        client, limits, end = self._client, self._engine.limits, 0
        try:
            async with asyncio.timeout(limits.head_seconds):
                while not end and await client.more():
                    end = find_request_end(bytes(client.buffer), limits)
        except TimeoutError:
            raise BadHeadError("the request head did not arrive in time", 408) from None
        return end
