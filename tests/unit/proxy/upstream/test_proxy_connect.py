import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_sandbox.proxy.upstream import proxy_connect as subject
from agent_sandbox.proxy.upstream.proxy_connect import NoTunnelError, connect_over_tls, open_tunnel
from certificates import make_authority
from memory_streams import memory_streams

QUESTION = b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"
OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"


async def asked(answer: bytes, *, end: bool = True, host: str = "a.test", credentials: str = "") -> tuple[bytes, bytes]:
    """Return what a proxy with this answer receives, and the part of the answer after the head."""
    reader, writer, transport = memory_streams()
    reader.feed_data(answer)
    if end:
        reader.feed_eof()
    try:
        await open_tunnel((reader, writer), host, 443, credentials=credentials, seconds=0.02)
    finally:
        writer.close()
    reader.feed_eof()
    return transport.written, await reader.read()


async def refusal(answer: bytes, *, end: bool = True, credentials: str = "") -> str:
    with pytest.raises(NoTunnelError) as caught:
        await asked(answer, end=end, credentials=credentials)
    return str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        OPENED,
        b"HTTP/1.0 200\r\n\r\n",
        b"HTTP/1.1 204 \r\nVia: 1.1 corp (squid)\r\nContent-Length: 7\r\n\r\n",
        b"HTTP/1.1 200 Verbindung hergestellt, gr\xfc\xdfe\r\nX:\r\n\r\n",
    ],
)
async def test_requests_a_tunnel_by_host_name_and_starts_the_tunnel_after_the_head(answer: bytes) -> None:
    assert await asked(answer + b"\x16\x03", end=False) == (QUESTION, b"\x16\x03")


async def test_writes_an_ipv6_address_in_brackets() -> None:
    said, _ = await asked(OPENED, host="2606:4700::1111", end=False)
    assert said == b"CONNECT [2606:4700::1111]:443 HTTP/1.1\r\nHost: [2606:4700::1111]:443\r\n\r\n"


async def test_sends_the_credentials() -> None:
    said, _ = await asked(OPENED, credentials="me:gr\u00fc\u00dfe:2", end=False)
    encoded = b64encode("me:gr\u00fc\u00dfe:2".encode())
    assert said == QUESTION[:-2] + b"Proxy-Authorization: Basic " + encoded + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "denies a.test:443 (403)"),
        (b"HTTP/1.1 405 No\r\n\r\n", "does not support a tunnel to a.test:443 (405)"),
        (b"HTTP/1.1 503 No\r\n\r\n", "cannot reach a.test:443 (503)"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\n\r\n", "refuses a tunnel to a.test:443 (302)"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OPENED, "refuses a tunnel to a.test:443 (100)"),
        (b"HTTP/1.1 407 Who\r\n\r\n", subject.REQUIRED),
        (b"", "closed the connection without a response"),
        (b"HTTP/1.1 200 OK\r\n", "closed the connection without a response"),
    ],
)
async def test_explains_why_the_upstream_proxy_opened_no_tunnel(answer: bytes, why: str) -> None:
    assert await refusal(answer) == why


async def test_reports_rejected_credentials() -> None:
    assert await refusal(b"HTTP/1.1 407 Who\r\n\r\n", credentials="me:wrong") == subject.REJECTED


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"\r\n\r\n", "it is not HTTP/1"),
        (b"SSH-2.0-x\r\n\r\n", "it is not HTTP/1"),
        (b"HTTP/2 200\r\n\r\n", "it is not HTTP/1"),
        (b"HTTP/1.1 200OK\r\n\r\n", "it is not HTTP/1"),
        (b"HTTP/1.1 0200 OK\r\n\r\n", "it is not HTTP/1"),
        (b"HTTP/1.1  200 OK\r\n\r\n", "it is not HTTP/1"),
        (b"HTTP/1.1 200 OK\nVia: x\r\n\r\n", "a bare CR or LF in the response head"),
        (b"HTTP/1.1 200 OK\r\nVia: x\r\n folded\r\n\r\n", "a folded header line"),
        (b"HTTP/1.1 200 OK\r\nVia : x\r\n\r\n", "a malformed header line"),
        (b"HTTP/1.1 200 OK\r\nno field\r\n\r\n", "a malformed header line"),
        (b"HTTP/1.1 200 OK\r\nVia: \0\r\n\r\n", "a malformed header line"),
        (b"HTTP/1.1 200 O\rK\r\n\r\n", "a bare CR or LF in the response head"),
        (b"HTTP/1.1 200 O\0K\r\n\r\n", "the status line is not `HTTP/1.1 status reason`"),
    ],
)
async def test_malformed_response_head_opens_no_tunnel(answer: bytes, problem: str) -> None:
    assert await refusal(answer) == f"sent a malformed response: {problem}"


async def test_limits_the_time_for_an_answer() -> None:
    assert await refusal(b"HTTP/1.1 200 OK\r\n", end=False) == "did not answer within 0.02 s"


async def test_rejects_an_overlong_response_head() -> None:
    assert await refusal(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 140_000) == "sent an overlong response head"
    assert await refusal(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n") == "sent an overlong response head"


async def test_reports_an_aborted_connection() -> None:
    for why in (ConnectionResetError(104, "reset by peer"), ConnectionResetError("reset by peer")):
        reader, writer, _ = memory_streams()
        reader.set_exception(why)
        with pytest.raises(NoTunnelError, match=r"^aborted the connection: reset by peer$"):
            await open_tunnel((reader, writer), "a.test", 443, credentials="", seconds=1)
        writer.close()


@asynccontextmanager
async def tls_server(leaf: Path | None) -> AsyncIterator[int]:
    """Listen on loopback, with TLS if there is a certificate."""
    context = None
    if leaf:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(leaf)

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_verifies_tls_with_the_upstream_proxy(tmp_path: Path) -> None:
    trust = ssl.create_default_context(cafile=make_authority(tmp_path, ["proxy.test"]))
    async with tls_server(tmp_path / "leaf.pem") as port:
        reader, writer = await connect_over_tls("127.0.0.1", port, name="proxy.test", trust=trust)
        assert await reader.read() == b"hello"
        writer.close()
        for name, trusted in (("other.test", trust), ("proxy.test", ssl.create_default_context())):
            with pytest.raises(OSError, match=r"TLS failed \((Hostname mismatch|unable to get)"):
                await connect_over_tls("127.0.0.1", port, name=name, trust=trusted)
    async with tls_server(None) as port:
        with pytest.raises(OSError, match=r"TLS failed \([A-Z_]+\)"):
            await connect_over_tls("127.0.0.1", port, name="proxy.test", trust=trust)
