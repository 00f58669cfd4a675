"""Resolve a name, check its addresses, and connect to exactly an address that was checked."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address

from agent_sandbox.policy.http.addresses import is_liftable, why_forbidden
from agent_sandbox.policy.match.host_service import ENGINE, HostService
from agent_sandbox.policy.match.private_hosts import why_private
from agent_sandbox.policy.text import MACHINE_NAME
from agent_sandbox.problems import UserError
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.upstream.overrides import Override
from agent_sandbox.proxy.upstream.proxy_connect import (
    NoTunnelError,
    ProxyEndpoint,
    Streams,
    connect_over_tls,
    open_tunnel,
)

Resolve = Callable[[str, int], Awaitable[list[str]]]
Connect = Callable[[str, int], Awaitable[Streams]]
HostServiceOf = Callable[[str, int], HostService | None]
UpstreamProxyOf = Callable[[str], ProxyEndpoint | None]
IsItself = Callable[[str, int], bool]

# Messages reach the agent, so they do not contain the address of the upstream proxy.
UPSTREAM = "the upstream proxy"


class NotReached(str):
    """Why a connection failed. A `str`, because that is the type that mitmproxy's layers pass on."""

    __slots__ = ()


class Refused(NotReached):
    """The proxy did not try to connect, because nothing in the sandbox may reach this address."""

    __slots__ = ()


class DialError(OSError):
    """Carries the `NotReached`."""

    def __init__(self, why: NotReached) -> None:
        super().__init__(why)
        self.why = why


class LoopGuard:
    """Knows the ports at which the proxy listens, once `listens` is called.

    A host service at such an address would make it connect to itself forever.
    """

    def __init__(self) -> None:
        self._ports: frozenset[int] = frozenset()

    def listens(self, *places: str) -> None:
        """Set the proxy's listening addresses, such as `0.0.0.0:8080`."""
        self._ports = frozenset(int(place.rpartition(":")[2]) for place in places)

    def is_at(self, address: str, port: int) -> bool:
        """Return whether the proxy listens at `address` and `port`, on any interface of its machine."""
        return port in self._ports and _is_own_address(address)


def _is_own_address(address: str) -> bool:
    # A socket can be bound only to an address of this machine.
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


# A separate pool: names whose DNS servers do not answer block their threads, and a reload needs a thread too.
RESOLVERS = ThreadPoolExecutor(max_workers=32, thread_name_prefix="resolver")


async def resolve(host: str, port: int) -> list[str]:
    """Ask the system's resolver for all addresses of `host`."""
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(RESOLVERS, ask)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def connect(address: str, port: int) -> Streams:
    """Open a TCP connection to a literal address."""
    return await asyncio.open_connection(address, port)


def no_host_service(_: str, __: int) -> None:
    """Return no host service."""


def no_upstream_proxy(_: str) -> None:
    """Return no upstream proxy."""


def not_itself(_: str, __: int) -> bool:
    """Return that the address is not the proxy's own."""
    return False


class Dialler:
    """Opens every connection that leaves the proxy.

    `host_service_of` returns the host service for a host and port, and `upstream_proxy_of` the upstream proxy for a
    host, by the policy in force. The dialler connects to host services directly.
    `is_itself` returns whether an address and port are the proxy's own.
    """

    def __init__(  # noqa: PLR0913 - its collaborators, and replacements for the network in tests
        self,
        *,
        limits: Limits,
        overrides: Iterable[Override] = (),
        host_service_of: HostServiceOf = no_host_service,
        upstream_proxy_of: UpstreamProxyOf = no_upstream_proxy,
        is_itself: IsItself = not_itself,
        resolve: Resolve = resolve,
        connect: Connect = connect,
    ) -> None:
        self._limits = limits
        self._overrides = {(entry.host, entry.port): entry for entry in overrides}
        self._host_service_of = host_service_of
        self._upstream_proxy_of = upstream_proxy_of
        self._is_itself = is_itself
        self._resolve = resolve
        self._connect = connect

    async def dial(self, host: str, port: int) -> Streams:
        """Connect to `host`. Raises `DialError`."""
        override = self._overrides.get((host, port))
        if override is not None:
            return await self._first([override.address], override.to, f"{host}:{port}", self._connect)
        service = self._host_service_of(host, port)
        endpoint = None if service else self._upstream_proxy_of(host)
        if endpoint is not None:
            await self._refuse_private(host, port)
            return await self._open_tunnel(endpoint, host, port)
        addresses = await self._lookup(_name_of(service) if service else host, port, host)
        to = service.port if service else port
        self._check(addresses, to, service, host)
        return await self._first(addresses, to, f"{host}:{port}", self._connect)

    async def _refuse_private(self, host: str, port: int) -> None:
        """Raise DialError for a name that is private or resolves to a private address here.

        The upstream proxy resolves the name itself, perhaps differently.
        """
        why = why_private(host)
        if why is not None:
            raise DialError(Refused(f"{host} {why}"))
        try:
            addresses = await self._lookup(host, port, host, seconds=self._limits.hint_seconds)
        except DialError:
            return  # behind an upstream proxy, there may be no DNS for public names
        self._check(addresses, port, None, host)

    async def _open_tunnel(self, endpoint: ProxyEndpoint, host: str, port: int) -> Streams:
        streams = await self._connect_to_proxy(endpoint)
        opened = False
        try:
            credentials = endpoint.credentials()
            await open_tunnel(streams, host, port, credentials=credentials, seconds=self._limits.connect_seconds)
            opened = True
        except NoTunnelError as error:
            raise DialError(NotReached(f"{UPSTREAM} {error}")) from error
        except UserError as error:
            raise DialError(NotReached(f"{UPSTREAM} was not used: {error}")) from error
        finally:
            if not opened:
                streams[1].transport.abort()
        return streams

    async def _connect_to_proxy(self, endpoint: ProxyEndpoint) -> Streams:
        proxy, connect = endpoint.proxy, self._connect
        if proxy.tls:
            connect = partial(connect_over_tls, name=proxy.host, trust=endpoint.trust())
        override = self._overrides.get((proxy.host, proxy.port))
        if override is not None:
            return await self._first([override.address], override.to, UPSTREAM, connect)
        # Its address may be private, because the policy names it; this opens no other private address.
        service = HostService(name=UPSTREAM, to=proxy.host, port=proxy.port)
        addresses = await self._lookup(_name_of(service), proxy.port, UPSTREAM)
        self._check(addresses, proxy.port, service, UPSTREAM)
        return await self._first(addresses, proxy.port, UPSTREAM, connect)

    async def _lookup(self, host: str, port: int, shown: str, *, seconds: float | None = None) -> list[str]:
        seconds = seconds or self._limits.resolve_seconds
        try:
            async with asyncio.timeout(seconds):
                addresses = await self._resolve(host, port)
        except TimeoutError:
            raise DialError(NotReached(f"{shown} did not resolve within {seconds:g} s")) from None
        except (OSError, UnicodeError) as error:
            detail = error.strerror if isinstance(error, OSError) else "not a valid name"
            raise DialError(NotReached(f"{shown} does not resolve: {detail}")) from error
        if not addresses:
            raise DialError(NotReached(f"{shown} has no address"))
        return addresses

    def _check(self, addresses: Iterable[str], port: int, service: HostService | None, shown: str) -> None:
        for address in addresses:
            kind = why_forbidden(address)
            if kind is not None and not (service and _lifts(service, address)):
                raise DialError(Refused(f"{shown} resolves to {address}, a {kind} address"))
            if self._is_itself(address, port):
                raise DialError(Refused(f"{shown} resolves to {address}, where port {port} is the proxy itself"))

    async def _first(self, addresses: list[str], port: int, shown: str, connect: Connect) -> Streams:
        error: OSError | None = None
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                for address in addresses:
                    try:
                        return await connect(address, port)
                    except OSError as failed:
                        error = failed
        except TimeoutError:
            raise DialError(NotReached(f"{shown} did not answer within {self._limits.connect_seconds:g} s")) from None
        raise DialError(NotReached(f"{shown} cannot be reached: {error.strerror if error else ''}")) from error


def _name_of(service: HostService) -> str:
    return MACHINE_NAME if service.to == ENGINE else service.to


def _lifts(service: HostService, address: str) -> bool:
    if not is_liftable(address):
        return False
    return service.network is None or ip_address(address) in service.network
