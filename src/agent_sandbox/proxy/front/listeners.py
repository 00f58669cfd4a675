"""Open the sockets of the transparent proxy and the DNS server."""

import asyncio

from msgspec import Struct

from agent_sandbox.proxy.front.dns_sockets import Answer, OverTcp, OverUdp
from agent_sandbox.proxy.front.transparent import TransparentProxy
from agent_sandbox.proxy.net.sockets import address_of, listen, listen_udp
from agent_sandbox.proxy.settings import Entrances


class Opened(Struct, frozen=True, kw_only=True):
    """Open sockets, and the addresses at which they listen, by protocol."""

    open: tuple[asyncio.Server | asyncio.DatagramTransport, ...] = ()
    listening: dict[str, str]

    def close(self) -> None:
        """Close all sockets."""
        for entrance in self.open:
            entrance.close()


async def open_entrances(places: Entrances, transparent: TransparentProxy, answer: Answer) -> Opened:
    """Listen at all addresses of `places`. Raises `UserError`."""
    servers: dict[str, asyncio.Server] = {}
    datagrams: list[asyncio.DatagramTransport] = []
    if places.tls:
        servers["tls"] = await listen(transparent.serve_tls, *places.tls, option="--tls")
    if places.http:
        servers["http"] = await listen(transparent.serve_http, *places.http, option="--http")
    if places.dns:
        servers["dns"] = await listen(OverTcp(answer).serve, *places.dns, option="--dns")
        # Use the same port for UDP, even if the system chose the one for TCP.
        place = servers["dns"].sockets[0].getsockname()[:2]
        datagrams.append(await listen_udp(lambda: OverUdp(answer), *place, option="--dns"))
    listening = {name: address_of(server) for name, server in servers.items()}
    return Opened(open=(*servers.values(), *datagrams), listening=listening)
