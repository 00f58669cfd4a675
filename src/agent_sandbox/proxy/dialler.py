"""Resolve, then check, then pin: the address that is dialled is the address that was checked."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address

from agent_sandbox.policy.addresses import is_liftable, why_forbidden
from agent_sandbox.policy.hostservice import ENGINE, HostService
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.overrides import Override

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolve = Callable[[str, int], Awaitable[list[str]]]
Connect = Callable[[str, int], Awaitable[Streams]]
PlaceOf = Callable[[str, int], HostService | None]

# What the engine's machine is called in a container; the stack gives the proxy, and nobody else, an address for it.
ENGINES_NAME = "host.docker.internal"


class NotReached(str):
    """Why no connection came to be. A `str`, because that is what mitmproxy's layers hand from one to the next."""

    __slots__ = ()


class Refused(NotReached):
    """Not dialled at all: the address is one that nothing in the sandbox may reach."""

    __slots__ = ()


class DialError(OSError):
    """Carries the `NotReached`."""

    def __init__(self, why: NotReached) -> None:
        super().__init__(why)
        self.why = why


# Of its own: names whose servers are silent hold their threads for as long as they like, and a reload wants one too.
RESOLVERS = ThreadPoolExecutor(max_workers=32, thread_name_prefix="resolver")


async def resolve(host: str, port: int) -> list[str]:
    """Ask the system's resolver for all addresses of `host`."""
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(RESOLVERS, ask)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def connect(address: str, port: int) -> Streams:
    """Open a TCP connection to a literal address."""
    return await asyncio.open_connection(address, port)


def no_place(_: str, __: int) -> None:
    """Know no private place."""


class Dialler:
    """Opens every connection that leaves the proxy.

    `place_of` tells where in private networks a host and port lead, as the policy that is in force says.
    """

    def __init__(
        self,
        *,
        limits: Limits,
        overrides: Iterable[Override] = (),
        place_of: PlaceOf = no_place,
        resolve: Resolve = resolve,
        connect: Connect = connect,
    ) -> None:
        self._limits = limits
        self._overrides = {(entry.host, entry.port): entry for entry in overrides}
        self._place_of = place_of
        self._resolve = resolve
        self._connect = connect

    async def dial(self, host: str, port: int) -> Streams:
        """Connect to `host`. Raises `DialError`."""
        override = self._overrides.get((host, port))
        if override is not None:
            return await self._first([override.address], override.to, host)
        place = self._place_of(host, port)
        addresses = await self._lookup(_name_of(place) if place else host, port)
        for address in addresses:
            kind = why_forbidden(address)
            if kind is not None and not (place and _lifts(place, address)):
                raise DialError(Refused(f"{host} leads to {address}, a {kind} address"))
        return await self._first(addresses, place.port if place else port, host)

    async def _lookup(self, host: str, port: int) -> list[str]:
        try:
            async with asyncio.timeout(self._limits.resolve_seconds):
                addresses = await self._resolve(host, port)
        except TimeoutError:
            raise DialError(NotReached(f"{host} was not resolved within {self._limits.resolve_seconds:g} s")) from None
        except (OSError, UnicodeError) as error:
            detail = error.strerror if isinstance(error, OSError) else "not a name"
            raise DialError(NotReached(f"{host} does not resolve: {detail}")) from error
        if not addresses:
            raise DialError(NotReached(f"{host} has no address"))
        return addresses

    async def _first(self, addresses: list[str], port: int, host: str) -> Streams:
        error: OSError | None = None
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                for address in addresses:
                    try:
                        return await self._connect(address, port)
                    except OSError as failed:
                        error = failed
        except TimeoutError:
            raise DialError(NotReached(f"{host}:{port} did not answer in {self._limits.connect_seconds:g} s")) from None
        raise DialError(NotReached(f"{host}:{port} cannot be reached: {error.strerror if error else ''}")) from error


def _name_of(place: HostService) -> str:
    return ENGINES_NAME if place.to == ENGINE else place.to


def _lifts(place: HostService, address: str) -> bool:
    if not is_liftable(address):
        return False
    return place.network is None or ip_address(address) in place.network
