from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING, cast

import pytest
from msgspec.structs import replace

from agent_sandbox.policy import decide_connect
from agent_sandbox.proxy.lane import choice
from agent_sandbox.proxy.lane.choice import CannotServeError, open_session, wants_mitmproxy
from agent_sandbox.proxy.lane.session import LaneSession
from agent_sandbox.proxy.mitm.session import Session
from agent_sandbox.proxy.net.connection_limit import Held, Place
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from lane_stage import OPEN, PLAIN, SECURE, LaneStage, pair_of_sockets

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_sandbox.policy import Policy
    from agent_sandbox.proxy.tunnel import Tunnel


def real_hello(*protocols: str) -> bytes:
    context, out = ssl.create_default_context(), ssl.MemoryBIO()
    if protocols:
        context.set_alpn_protocols([*protocols])
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="a.test").do_handshake()
    return out.read()


@pytest.mark.parametrize(
    ("tunnel", "hello", "wanted"),
    [
        (PLAIN, b"GET / HTTP/1.1\r\n", False),
        (OPEN, b"GET http://a.test/ HTTP/1.1\r\n", False),
        (SECURE, real_hello("http/1.1"), False),
        (SECURE, real_hello(), False),
        (SECURE, real_hello("h2", "http/1.1"), True),
        (SECURE, real_hello("h2"), True),
        (SECURE, real_hello("h2", "other"), True),
        (SECURE, real_hello("\x0a\x0a", "http/1.1", "h2", "h2"), True),
        (SECURE, real_hello("h2", "x\x08http/1.1"), True),
        (SECURE, real_hello("other", "x\x02h2"), False),
        (SECURE, b"", True),
        (SECURE, b"no TLS", True),
    ],
)
def test_clients_that_offer_http2_get_mitmproxy(tunnel: Tunnel, hello: bytes, *, wanted: bool) -> None:
    assert wants_mitmproxy(tunnel, hello, http1="auto") is wanted
    assert wants_mitmproxy(tunnel, hello, http1="mitmproxy")


@pytest.mark.parametrize("others", [["http/1.1"], ["http/1.1", "other"], []])
def test_clients_that_offer_both_versions_get_http1_if_the_policy_forces_the_lane(others: list[str]) -> None:
    assert wants_mitmproxy(SECURE, real_hello("h2", *others), http1="lane") is not bool(others)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("domains: [a.test]", LaneSession),
        ("settings: {http1: mitmproxy}", Session),
        ("settings: {http1: lane}", LaneSession),
        ("settings: {http1: auto}", LaneSession),
    ],
)
async def test_the_policy_chooses_what_serves_http1(
    policy: Callable[[str], Policy], text: str, kind: type[object]
) -> None:
    engine = LaneStage(policy(text)).engine
    (reader, writer), (_, other) = await pair_of_sockets()
    session = await open_session(engine, PLAIN, PeekableReader(reader, Place(Held())), writer)
    assert isinstance(session, kind)
    session.abort()
    for one in (writer, other):
        one.transport.abort()
    await asyncio.sleep(0)
    assert cast("object", session)


async def test_decides_on_the_tunnel_again_after_a_reload_during_the_import(
    policy: Callable[[str], Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [policy("domains: [a.test]"), policy("domains: [b.test]")]
    engine = replace(LaneStage(rules[0]).engine, policy=lambda: rules[0])
    tunnel = replace(SECURE, decision=decide_connect(rules[0], host="a.test", port=443))

    async def load() -> type[Session]:
        rules.pop(0)
        return Session

    monkeypatch.setattr(choice, "load_session", load)
    (reader, writer), (_, other) = await pair_of_sockets()
    session = await open_session(engine, tunnel, PeekableReader(reader, Place(Held())), writer)
    assert isinstance(session, Session)
    assert tunnel.refused == decide_connect(rules[0], host="a.test", port=443)
    for one in (writer, other):
        one.transport.abort()
    await asyncio.sleep(0)


async def test_closes_a_connection_that_needs_mitmproxy_if_the_import_fails(
    policy: Callable[[str], Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load() -> str:
        return "mitmproxy cannot be imported"

    monkeypatch.setattr(choice, "load_session", load)
    engine = LaneStage(policy("settings: {http1: mitmproxy}")).engine
    (reader, writer), (_, other) = await pair_of_sockets()
    with pytest.raises(CannotServeError, match=r"^mitmproxy cannot be imported$"):
        await open_session(engine, PLAIN, PeekableReader(reader, Place(Held())), writer)
    assert not engine.sessions
    for one in (writer, other):
        one.transport.abort()
    await asyncio.sleep(0)
