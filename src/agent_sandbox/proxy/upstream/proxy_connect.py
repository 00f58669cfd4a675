"""Through a company's proxy: each connection is a tunnel that it opens, and is asked for by name.

Nothing of what it says reaches the client but its status, in words of ours; what comes after the head of its answer
is the tunnel's.
"""

import asyncio
import base64
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent_sandbox.policy.match.upstream import CREDENTIALS, UpstreamProxy

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

SAID = rb"[\t\x20-\x7e\x80-\xff]*"
ANSWER = re.compile(
    rb"HTTP/1\.[01] (?P<status>[1-5][0-9]{2})(?: " + SAID + rb")?\r\n"
    rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:" + SAID + rb"\r\n)*\r\n"
)
END = b"\r\n\r\n"
REFUSALS: Mapping[int, str] = {
    403: "does not let {where} through",
    405: "opens no tunnel to {where}",
    501: "opens no tunnel to {where}",
    502: "can't reach {where}",
    503: "can't reach {where}",
    504: "can't reach {where}",
}
ASKED = f"asks for credentials: `user:password` in a file `{CREDENTIALS}` beside the policy that names it"
REFUSED = f"does not take the credentials in `{CREDENTIALS}`"


class NoTunnelError(Exception):
    """Says what the proxy did instead: "does not let example.com:443 through"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyEndpoint:
    """The proxy that a connection goes through. `credentials` and `trust` are asked for when it is dialled."""

    proxy: UpstreamProxy
    credentials: Callable[[], str]
    trust: Callable[[], ssl.SSLContext]


async def connect_over_tls(address: str, port: int, *, name: str, trust: ssl.SSLContext) -> Streams:
    """Open a connection with TLS to a literal address, at which `name` has to be. Raises OSError."""
    try:
        return await asyncio.open_connection(address, port, ssl=trust, server_hostname=name)
    except ssl.SSLError as error:
        detail = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason
        raise OSError(error.errno, f"TLS failed ({detail})") from error


async def open_tunnel(streams: Streams, host: str, port: int, *, credentials: str, seconds: float) -> None:
    """Ask for a tunnel; whatever comes instead of one, or no answer in time, raises NoTunnelError."""
    reader, writer = streams
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        async with asyncio.timeout(seconds):
            writer.write(_question(where, credentials))
            await writer.drain()
            head = await reader.readuntil(END)
    except TimeoutError:
        raise NoTunnelError(f"did not answer in {seconds:g} s") from None
    except asyncio.IncompleteReadError:
        raise NoTunnelError("closed the connection without an answer") from None
    except asyncio.LimitOverrunError:
        raise NoTunnelError("gave an answer without an end") from None
    except OSError as error:
        raise NoTunnelError(f"broke off: {error.strerror or error}") from error
    answer = ANSWER.fullmatch(head)
    if answer is None:
        raise NoTunnelError("gave an answer that is no HTTP")
    status = int(answer["status"])
    if status == 407:
        raise NoTunnelError(REFUSED if credentials else ASKED)
    if not 200 <= status < 300:
        raise NoTunnelError(f"{REFUSALS.get(status, 'gives no tunnel to {where}').format(where=where)} ({status})")


def _question(where: str, credentials: str) -> bytes:
    lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
    if credentials:
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(credentials.encode()).decode()}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
