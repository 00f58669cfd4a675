import asyncio
import contextlib
import ssl

import pytest
from msgspec.structs import replace

from agent_sandbox.policy import Policy, decide_connect
from agent_sandbox.proxy.lane import choice
from agent_sandbox.proxy.lane.choice import CannotServeError, gets_http2, open_session
from agent_sandbox.proxy.lane.session import LaneSession
from agent_sandbox.proxy.mitm.session import Session
from agent_sandbox.proxy.net.connection_limit import Held, Place
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.wire.sniff import RawTunnelError
from lane_stage import OPEN, PLAIN, SECURE, LaneStage, pair_of_sockets
from policy_texts import PolicyOf


def real_hello(*protocols: str) -> bytes:
    context, out = ssl.create_default_context(), ssl.MemoryBIO()
    if protocols:
        context.set_alpn_protocols([*protocols])
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="a.test").do_handshake()
    return out.read()


@pytest.mark.parametrize(
    ("offers", "wanted"),
    [
        (["http/1.1"], False),
        ([], False),
        (["h2", "http/1.1"], True),
        (["h2"], True),
        (["h2", "other"], True),
        (["\x0a\x0a", "http/1.1", "h2", "h2"], True),
        (["h2", "x\x08http/1.1"], True),
        (["other", "x\x02h2"], False),
    ],
)
def test_clients_that_offer_http2_get_it(offers: list[str], *, wanted: bool) -> None:
    assert gets_http2(real_hello(*offers), http1="auto") is wanted


class Connection:
    """A connection with its first bytes, under a policy."""

    def __init__(self, policy: Policy, tunnel: Tunnel, data: bytes) -> None:
        self.engine = LaneStage(policy).engine
        self._tunnel = tunnel
        self._data = data

    async def kind(self) -> type[object]:
        """Return the class of the session that serves it."""
        (reader, writer), (_, other) = await pair_of_sockets()
        try:
            other.write(self._data)
            peekable = PeekableReader(reader, Place(Held()))
            while self._data and len(peekable.ahead) < len(self._data):
                await peekable.more()
            return type(await open_session(self.engine, self._tunnel, peekable, writer))
        finally:
            for one in (writer, other):
                one.transport.abort()
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("text", "tunnel", "data", "kind"),
    [
        ("domains: [a.test]", PLAIN, b"GET / HTTP/1.1\r\n", LaneSession),
        ("domains: [a.test]", OPEN, b"GET http://a.test/ HTTP/1.1\r\n", LaneSession),
        ("domains: [a.test]", OPEN, real_hello("h2"), LaneSession),
        ("domains: [a.test]", SECURE, real_hello(), LaneSession),
        ("domains: [a.test]", SECURE, real_hello("h2", "http/1.1"), Session),
        ("settings: {http1: auto}", SECURE, real_hello("h2", "http/1.1"), Session),
        ("settings: {http1: lane}", SECURE, real_hello("h2", "http/1.1"), LaneSession),
        ("settings: {http1: lane}", SECURE, real_hello("h2"), Session),
    ],
)
async def test_the_offered_protocols_and_the_policy_choose_what_serves_a_client(
    policy: PolicyOf, text: str, tunnel: Tunnel, data: bytes, kind: type[object]
) -> None:
    assert await Connection(policy(text), tunnel, data).kind() is kind


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the ClientHello is incomplete"),
        (real_hello("h2")[:-1], "the ClientHello is incomplete"),
        (b"no TLS", "malformed ClientHello: not a TLS handshake record"),
        (b"\x16\x03\x01\0\4\2\0\0\0", "malformed ClientHello: the first TLS message is not a ClientHello"),
    ],
)
async def test_refuses_a_connection_whose_client_hello_cannot_be_read(policy: PolicyOf, data: bytes, why: str) -> None:
    connection = Connection(policy("domains: [a.test]"), SECURE, data)
    with pytest.raises(RawTunnelError, match=f"^{why}$"):
        await connection.kind()
    assert not connection.engine.sessions


async def test_decides_on_the_tunnel_again_after_a_reload_during_the_import(
    policy: PolicyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [policy("domains: [a.test]"), policy("domains: [b.test]")]
    tunnel = replace(SECURE, decision=decide_connect(rules[0], host="a.test", port=443))

    async def load() -> type[Session]:
        rules.pop(0)
        return Session

    monkeypatch.setattr(choice, "load_session", load)
    connection = Connection(rules[0], tunnel, real_hello("h2"))
    connection.engine = replace(connection.engine, policy=lambda: rules[0])
    assert await connection.kind() is Session
    assert tunnel.refused == decide_connect(rules[0], host="a.test", port=443)


async def test_closes_a_connection_that_needs_mitmproxy_if_the_import_fails(
    policy: PolicyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load() -> str:
        return "mitmproxy cannot be imported"

    monkeypatch.setattr(choice, "load_session", load)
    connection = Connection(policy("domains: [a.test]"), SECURE, real_hello("h2"))
    with pytest.raises(CannotServeError, match=r"^mitmproxy cannot be imported$"):
        await connection.kind()
    assert not connection.engine.sessions
