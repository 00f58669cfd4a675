import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from agent_sandbox.proxy.front import dns_sockets as subject
from agent_sandbox.proxy.front.dns_sockets import OverTcp, OverUdp
from imports import brought_along
from memory_streams import memory_streams


def test_starting_the_proxy_does_not_import_the_dns_library() -> None:
    assert "dns" not in brought_along("import agent_sandbox.proxy.run")


def test_answers_a_datagram_to_its_sender() -> None:
    sent: list[object] = []

    over = OverUdp(lambda question, client: question + client.encode() if question else None)
    transport = SimpleNamespace(sendto=lambda *told: sent.append(told))
    over.connection_made(cast("asyncio.DatagramTransport", transport))
    over.datagram_received(b"q", ("10.0.0.3", 5))
    over.datagram_received(b"", ("10.0.0.3", 5))
    assert sent == [(b"q10.0.0.3", ("10.0.0.3", 5))]


async def over_tcp(*pieces: bytes, end: bool = True) -> bytes:
    reader, writer, transport = memory_streams()
    for piece in pieces:
        reader.feed_data(piece)
    if end:
        reader.feed_eof()
    await OverTcp(lambda question, _: question.upper() or None).serve(reader, writer)
    assert transport.ended == "closed"
    return transport.written


async def test_answers_several_queries_on_one_connection() -> None:
    assert await over_tcp(b"\0\1a\0", b"\2bc") == b"\0\1A\0\2BC"


async def test_closes_a_connection_after_the_maximum_number_of_queries() -> None:
    assert await over_tcp(b"\0\1a" * (subject.QUESTIONS + 1)) == b"\0\1A" * subject.QUESTIONS


async def test_closes_a_connection_that_announces_a_query_that_is_too_long() -> None:
    assert await over_tcp(b"\xff\xffx", end=False) == b""


async def test_closes_a_connection_after_an_empty_query() -> None:
    assert await over_tcp(b"\0\0\0\1a") == b""


async def test_closes_an_idle_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "PATIENCE_SECONDS", 0.01)
    assert await over_tcp(b"\0", end=False) == b""
