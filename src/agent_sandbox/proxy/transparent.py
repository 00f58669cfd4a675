"""The entrances for clients that know no proxy: its name server led them here, to port 443 or 80.

What they connected to says nothing: the name in the TLS hello, or the Host of the request, says whom they mean. From
there on it is a tunnel like any other: decided, resolved anew, checked, pinned.
"""

import asyncio
from collections.abc import Callable

from agent_sandbox.policy import Ambiguous, Policy, decide_connect, parse_authority
from agent_sandbox.proxy.connect import Opened
from agent_sandbox.proxy.denial import Denial
from agent_sandbox.proxy.farewell import Farewell
from agent_sandbox.proxy.firstbytes import judged, whole_head
from agent_sandbox.proxy.front import Front
from agent_sandbox.proxy.head import BadHeadError
from agent_sandbox.proxy.lead import Lead
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.line import Event, Line
from agent_sandbox.proxy.peek import RawTunnelError, WrongNameError, name_in_hello
from agent_sandbox.proxy.tunnel import Carries, Tunnel

TLS_PORT, HTTP_PORT = 443, 80

Record = Callable[[Line], None]


class Transparent:
    """Opens tunnels for connections that never asked for one."""

    def __init__(self, front: Front, policy: Callable[[], Policy], *, limits: Limits, record: Record) -> None:
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

    async def _open_tls(self, lead: Lead, writer: asyncio.StreamWriter, client: str) -> Tunnel | None:
        line = Line(event=Event.TLS, port=TLS_PORT, client=client)
        farewell = Farewell(self._record, lead, writer)
        try:
            host = await judged(lead, name_in_hello, self._limits)
        except (RawTunnelError, WrongNameError) as fault:
            await farewell.refuse(fault, line)
            return None
        return self._tunnel(client, Carries.TLS, host, TLS_PORT)

    async def _open_http(self, lead: Lead, writer: asyncio.StreamWriter, client: str) -> Tunnel | None:
        try:
            head, _ = await whole_head(lead, self._limits)
            host = _host_of(head.host)
        except BadHeadError as bad:
            line = Line(event=Event.MALFORMED, port=HTTP_PORT, client=client)
            denial = Denial(reason=str(bad), status=bad.status)
            await Farewell(self._record, lead, writer).deny(denial, line)
            return None
        return self._tunnel(client, Carries.HTTP, host, HTTP_PORT)

    def _tunnel(self, client: str, carries: Carries, host: str, port: int) -> Tunnel:
        opened = Opened(host=host, port=port, decision=decide_connect(self._policy(), host=host, port=port))
        return Tunnel(client=client, carries=carries, host=host, port=port, refused=opened.refused)


def _host_of(named: str | None) -> str:
    if named is None:
        raise BadHeadError("no Host header")
    try:
        host, port = parse_authority(named, default_port=HTTP_PORT)
    except Ambiguous as doubt:
        raise BadHeadError(f"ambiguous: {doubt}") from doubt
    if port != HTTP_PORT:
        raise BadHeadError(f"the Host names port {port}, the connection came to port {HTTP_PORT}")
    return host
