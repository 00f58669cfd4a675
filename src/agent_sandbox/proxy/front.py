"""Owns the listening socket: reads the first bytes of a connection, decides where it may lead, and hands it on."""

import asyncio
import contextlib
from collections.abc import Callable
from ipaddress import ip_address

from agent_sandbox.policy import Policy
from agent_sandbox.proxy.connect import ConnectDeniedError, Opened, decide_tunnel
from agent_sandbox.proxy.denial import Denial, page
from agent_sandbox.proxy.head import BadHeadError, find_end, parse_head
from agent_sandbox.proxy.lead import Lead
from agent_sandbox.proxy.line import Event, Line
from agent_sandbox.proxy.peek import RawTunnelError, WrongNameError, what_it_carries
from agent_sandbox.proxy.registry import Registry
from agent_sandbox.proxy.session import Engine, Session
from agent_sandbox.proxy.tunnel import Carries, Tunnel

CONNECT = b"CONNECT "
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
UNRECOGNIZED_NAME = b"\x15\x03\x03\x00\x02\x02\x70"  # a fatal TLS alert
LINGER_SECONDS = 1.0


class Front:
    """Serves client connections. One `serve` runs for each, from accept to close."""

    def __init__(self, engine: Engine, policy: Callable[[], Policy]) -> None:
        self._engine = engine
        self._limits = engine.limits
        self._policy = policy
        self._registry = Registry(limit=engine.limits.connections)

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._registry)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        client = str((writer.get_extra_info("peername") or ("",))[0])
        with self._registry.admit(client, writer.transport.abort) as used:
            try:
                await self._serve(Lead(reader, used), writer, client)
            except (OSError, TimeoutError):
                pass  # the client went away, or said nothing for too long: nothing was decided
            finally:
                writer.close()

    async def _serve(self, lead: Lead, writer: asyncio.StreamWriter, client: str) -> None:
        async with asyncio.timeout(self._limits.head_seconds):
            while CONNECT.startswith(lead.ahead[: len(CONNECT)]) and len(lead.ahead) < len(CONNECT):
                if not await lead.more():
                    return
        if lead.ahead.startswith(CONNECT):
            tunnel = await self._open_tunnel(lead, writer, client)
        else:
            tunnel = Tunnel(client=client, carries=Carries.PROXY, own=is_own(writer))
        if tunnel is not None:
            await Session(self._engine, tunnel, lead, writer).handle_client()

    async def _open_tunnel(self, lead: Lead, writer: asyncio.StreamWriter, client: str) -> Tunnel | None:
        line = Line(event=Event.CONNECT, method="CONNECT", client=client)
        try:
            opened = await self._read_connect(lead)
        except ConnectDeniedError as refused:
            line.host, line.port, line.rule = refused.denial.host, refused.port, refused.denial.rule
            await self._deny(refused.denial, line, lead, writer)
            return None
        except BadHeadError as bad:
            line.event = Event.MALFORMED
            await self._deny(Denial(reason=str(bad), status=bad.status, method="CONNECT"), line, lead, writer)
            return None
        writer.write(ESTABLISHED)
        line.host, line.port, line.rule = opened.host, opened.port, opened.decision.rule
        return await self._peek(opened, line, lead, writer)

    async def _read_connect(self, lead: Lead) -> Opened:
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                while not (end := find_end(lead.ahead, self._limits)):
                    if not await lead.more():
                        raise ConnectionAbortedError
        except TimeoutError:
            raise BadHeadError("the request head did not arrive in time", 408) from None
        return decide_tunnel(parse_head(lead.take(end), self._limits), self._policy)

    async def _peek(self, opened: Opened, line: Line, lead: Lead, writer: asyncio.StreamWriter) -> Tunnel | None:
        try:
            carries = await self._first_bytes(opened.host, lead)
        except WrongNameError as wrong:
            line.reason = str(wrong)
            await self._kill(line, lead, writer, last_words=UNRECOGNIZED_NAME)
            return None
        except RawTunnelError as raw:
            line.event, line.reason = Event.RAW_TUNNEL, str(raw)
            await self._kill(line, lead, writer)
            return None
        return Tunnel(client=line.client, carries=carries, host=opened.host, port=opened.port, refused=opened.refused)

    async def _first_bytes(self, host: str, lead: Lead) -> Carries:
        try:
            async with asyncio.timeout(self._limits.hello_seconds):
                while True:
                    carries = what_it_carries(lead.ahead, host) if lead.ahead else None
                    if carries is not None:
                        return carries
                    if len(lead.ahead) > self._limits.hello_bytes:
                        raise RawTunnelError("the first message is too long")
                    if not await lead.more():
                        raise RawTunnelError(
                            "closed before it said anything" if not lead.ahead else "closed in its hello"
                        )
        except TimeoutError:
            raise RawTunnelError("it said nothing in time") from None

    async def _deny(self, denial: Denial, line: Line, lead: Lead, writer: asyncio.StreamWriter) -> None:
        line.reason, line.status = denial.reason, denial.status
        await self._kill(line, lead, writer, last_words=page(denial).http1())

    async def _kill(self, line: Line, lead: Lead, writer: asyncio.StreamWriter, last_words: bytes = b"") -> None:
        self._engine.record(line)
        if last_words:
            writer.write(last_words)
        await _close_gently(lead, writer)


def is_own(writer: asyncio.StreamWriter) -> bool:
    """Return whether the client came over loopback, or from the very address that it came to.

    No packet of another machine's passes as either: the kernel drops it, and the answers to it would not leave.
    """
    peer, here = (writer.get_extra_info(name) for name in ("peername", "sockname"))
    return bool(peer and here) and (peer[0] == here[0] or ip_address(peer[0]).is_loopback)


async def _close_gently(lead: Lead, writer: asyncio.StreamWriter) -> None:
    # Closing with unread bytes would reset the connection, and the client would never see what we said last.
    with contextlib.suppress(OSError, TimeoutError):
        writer.write_eof()
        async with asyncio.timeout(LINGER_SECONDS):
            while await lead.more():
                lead.take(len(lead.ahead))
