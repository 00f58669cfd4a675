"""The transparent proxy: ports 443 and 80, to which our DNS server sends clients that ignore the proxy variables.

The host comes from the SNI or the Host header, never from the address connected to. From there on the connection is a
tunnel like any other: decided, resolved, checked, pinned.
"""

import asyncio
from collections.abc import Callable

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Ambiguous, Policy, decide_connect, parse_authority
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.exchange.denial import Denial
from agent_sandbox.proxy.front.explicit_proxy import ExplicitProxy
from agent_sandbox.proxy.front.first_bytes import judged, whole_head
from agent_sandbox.proxy.front.rejection import Rejection
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.http1_head import ANOTHER_PROXY, BadHeadError, RequestHead
from agent_sandbox.proxy.wire.sniff import RawTunnelError, WrongNameError, name_in_hello

TLS_PORT, HTTP_PORT = 443, 80

Record = Callable[[AuditRecord], None]


class TransparentProxy:
    """Opens a tunnel for each connection, as if the client had sent a CONNECT."""

    def __init__(self, front: ExplicitProxy, policy: Callable[[], Policy], *, limits: Limits, record: Record) -> None:
        self._front = front
        self._policy = policy
        self._limits = limits
        self._record = record

    async def serve_tls(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection to port 443."""
        await self._front.serve_by(self._open_tls, reader, writer)

    async def serve_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection to port 80."""
        await self._front.serve_by(self._open_http, reader, writer)

    async def _open_tls(self, peekable: PeekableReader, writer: asyncio.StreamWriter, client: str) -> Tunnel | None:
        line = AuditRecord(event=Event.TLS, port=TLS_PORT, client=client)
        rejection = Rejection(self._record, peekable, writer)
        try:
            host = await judged(peekable, name_in_hello, self._limits)
        except (RawTunnelError, WrongNameError) as fault:
            await rejection.refuse(fault, line)
            return None
        return self._tunnel(client, Carries.TLS, host, TLS_PORT)

    async def _open_http(self, peekable: PeekableReader, writer: asyncio.StreamWriter, client: str) -> Tunnel | None:
        try:
            head, _ = await whole_head(peekable, self._limits)
            host = _host_of(head)
        except BadHeadError as bad:
            line = AuditRecord(event=Event.MALFORMED, port=HTTP_PORT, client=client)
            denial = Denial(reason=str(bad), status=bad.status)
            await Rejection(self._record, peekable, writer).deny(denial, line)
            return None
        return self._tunnel(client, Carries.HTTP, host, HTTP_PORT)

    def _tunnel(self, client: str, carries: Carries, host: str, port: int) -> Tunnel:
        decision = decide_connect(self._policy(), host=host, port=port)
        return Tunnel(client=client, carries=carries, host=host, port=port, decision=decision)


def _host_of(head: RequestHead) -> str:
    if head.method == "CONNECT":
        raise BadHeadError(ANOTHER_PROXY.format("CONNECT"))
    if head.host is None:
        raise BadHeadError("no Host header")
    try:
        host, port = parse_authority(head.host, default_port=HTTP_PORT)
    except Ambiguous as doubt:
        raise BadHeadError(f"ambiguous: {doubt}") from doubt
    if port != HTTP_PORT:
        raise BadHeadError(f"the Host header names port {port}, but the connection came to port {HTTP_PORT}")
    return host
