"""Open a tunnel through an upstream proxy: one CONNECT per connection, with the host by name.

The client sees only the status of the upstream proxy's response, explained in our own words. All data after the
response head belongs to the tunnel.
"""

import asyncio
import base64
import ssl
from collections.abc import Callable, Mapping

from msgspec import Struct

from agent_sandbox.policy.match.upstream import CREDENTIALS, UpstreamProxy
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.wire.http1_head import END, BadHeadError, parse_response

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

LIMITS = Limits()
REFUSALS: Mapping[int, str] = {
    403: "denies {where}",
    405: "does not support a tunnel to {where}",
    501: "does not support a tunnel to {where}",
    502: "cannot reach {where}",
    503: "cannot reach {where}",
    504: "cannot reach {where}",
}
REQUIRED = f"requires credentials: write `user:password` to `{CREDENTIALS}` next to the policy file that names it"
REJECTED = f"rejects the credentials in `{CREDENTIALS}`"


class NoTunnelError(Exception):
    """The upstream proxy opened no tunnel. The message is a predicate: "denies example.com:443 (403)"."""


class ProxyEndpoint(Struct, frozen=True, kw_only=True):
    """The upstream proxy for a connection. `credentials` and `trust` are called when the dialler connects to it."""

    proxy: UpstreamProxy
    credentials: Callable[[], str]
    trust: Callable[[], ssl.SSLContext]


async def connect_over_tls(address: str, port: int, *, name: str, trust: ssl.SSLContext) -> Streams:
    """Open a TLS connection to a literal address and verify the certificate for `name`. Raises OSError."""
    try:
        return await asyncio.open_connection(address, port, ssl=trust, server_hostname=name)
    except ssl.SSLError as error:
        detail = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason
        raise OSError(error.errno, f"TLS failed ({detail})") from error


async def open_tunnel(streams: Streams, host: str, port: int, *, credentials: str, seconds: float) -> None:
    """Send a CONNECT over `streams` and read the response. Raises `NoTunnelError`."""
    reader, writer = streams
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        async with asyncio.timeout(seconds):
            writer.write(_question(where, credentials))
            await writer.drain()
            head = await reader.readuntil(END)
    except TimeoutError:
        raise NoTunnelError(f"did not answer within {seconds:g} s") from None
    except asyncio.IncompleteReadError:
        raise NoTunnelError("closed the connection without a response") from None
    except asyncio.LimitOverrunError:
        raise NoTunnelError("sent an overlong response head") from None
    except OSError as error:
        raise NoTunnelError(f"aborted the connection: {error.strerror or error}") from error
    try:
        status = parse_response(head, LIMITS).status
    except BadHeadError as problem:
        raise NoTunnelError(f"sent a malformed response: {problem}") from problem
    if status == 407:
        raise NoTunnelError(REJECTED if credentials else REQUIRED)
    if not 200 <= status < 300:
        raise NoTunnelError(f"{REFUSALS.get(status, 'refuses a tunnel to {where}').format(where=where)} ({status})")


def _question(where: str, credentials: str) -> bytes:
    lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
    if credentials:
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(credentials.encode()).decode()}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
