import asyncio
import json
from collections.abc import Callable
from typing import cast

import pytest

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Policy, decide_connect
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.front.explicit_proxy import ExplicitProxy, Opening
from agent_sandbox.proxy.front.transparent import TransparentProxy
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.http1_head import ANOTHER_PROXY
from client_hellos import hello
from memory_streams import lead_of, memory_streams
from policy_texts import PolicyOf

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"


class Stage:
    """Both listeners, and the result of one connection."""

    def __init__(self, policy: Policy) -> None:
        self.lines: list[AuditRecord] = []
        self.policy = policy
        self.opened: Tunnel | None = None
        self.said = b""
        self.entrance = TransparentProxy(
            cast("ExplicitProxy", self), lambda: policy, limits=Limits(), record=self.lines.append
        )

    async def serve_by(self, opening: Opening, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Act as the explicit proxy."""
        del reader
        self.opened = await opening(self.lead, writer, "10.0.0.3")

    async def tls(self, *pieces: bytes) -> Tunnel | None:
        """Serve a client that connects to port 443."""
        return await self._serve(self.entrance.serve_tls, pieces)

    async def http(self, *pieces: bytes) -> Tunnel | None:
        """Serve a client that connects to port 80."""
        return await self._serve(self.entrance.serve_http, pieces)

    async def _serve(self, serve: Callable[..., object], pieces: tuple[bytes, ...]) -> Tunnel | None:
        reader, writer, transport = memory_streams()
        self.lead = lead_of(*pieces)
        await serve(reader, writer)  # type: ignore[misc]
        writer.close()
        self.said = transport.written
        return self.opened

    def tunnel(self, carries: Carries, port: int) -> Tunnel:
        """Return the tunnel to the host that the policy allows."""
        decision = decide_connect(self.policy, host="a.test", port=port)
        return Tunnel(client="10.0.0.3", carries=carries, host="a.test", port=port, decision=decision)


@pytest.fixture
def stage(policy: PolicyOf) -> Stage:
    return Stage(policy("domains: [a.test]"))


async def test_the_client_hello_names_the_host_of_a_tls_tunnel(stage: Stage) -> None:
    expected = stage.tunnel(Carries.TLS, 443)
    assert expected == await stage.tls(hello(b"A.test.")[:7], hello(b"A.test.")[7:])
    assert (stage.said, stage.lines) == (b"", [])


async def test_the_host_header_names_the_host_of_an_http_tunnel(stage: Stage) -> None:
    expected = stage.tunnel(Carries.HTTP, 80)
    assert expected == await stage.http(GET[:7], GET[7:])
    assert stage.lead.ahead == GET
    assert (stage.said, stage.lines) == (b"", [])


async def test_a_denied_name_gets_a_tunnel_with_the_denial(stage: Stage) -> None:
    for tunnel in (await stage.tls(hello(b"b.test")), await stage.http(GET.replace(b"a.test", b"b.test"))):
        assert tunnel
        assert tunnel.refused
        assert tunnel.refused.reason == "no rule allows host b.test"


async def test_tls_without_a_server_name_gets_an_alert(stage: Stage) -> None:
    assert await stage.tls(hello()) is None
    assert stage.said == b"\x15\x03\x03\x00\x02\x02\x70"
    line = stage.lines[0]
    assert (line.event, line.port, line.reason) == (Event.TLS, 443, "sni_missing: the ClientHello names no host")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"SSH-2.0 x\r\n\r\n", "the request line is not `METHOD target HTTP/1.1`"),
        (b"GET /x HTTP/1.0\r\n\r\n", "no Host header"),
        (
            b"CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n",
            ANOTHER_PROXY.format("CONNECT"),
        ),
        (GET.replace(b"a.test", b"a..test"), "ambiguous: not a host name: 'a..test'"),
        (GET.replace(b"a.test", b"a.test:81"), "the Host header names port 81, but the connection came to port 80"),
        (GET.replace(b"a.test", b"a.test\r\nHost: b.test"), "more than one Host header"),
    ],
)
async def test_answers_a_request_without_one_valid_host_with_400(stage: Stage, data: bytes, reason: str) -> None:
    assert await stage.http(data) is None
    assert stage.said.startswith(b"HTTP/1.1 400 Bad Request")
    assert json.loads(stage.said.partition(b"\r\n\r\n")[2])["reason"] == reason
    assert (stage.lines[0].event, stage.lines[0].reason) == (Event.MALFORMED, reason)
