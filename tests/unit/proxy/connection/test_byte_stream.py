import asyncio
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from OpenSSL import SSL

from agent_sandbox.proxy.connection.byte_stream import HELD_BYTES, ByteStream, TlsRecords
from agent_sandbox.proxy.net.linger_close import LINGER_BYTES
from agent_sandbox.proxy.tls.authority import load_authority, now_utc
from agent_sandbox.proxy.tls.contexts import ClientTls, TlsStart
from lane_stage import SECURE, Pair, pair_of_sockets, untrusting

type Kind = Callable[[Path], Awaitable[Both]]
type Both = tuple[ByteStream, asyncio.StreamReader, asyncio.StreamWriter]

MANY = b"x" * (4 * 1024 * 1024)
MOVED: list[str] = []


OPENED: list[asyncio.StreamWriter] = []
RECORD = st.binary(max_size=300).map(lambda body: b"\x17\x03\x03" + len(body).to_bytes(2) + body)


@pytest.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    """Leave nothing open."""
    yield
    for writer in OPENED:
        writer.transport.abort()
    OPENED.clear()
    await asyncio.sleep(0)


async def raw() -> tuple[Pair, Pair]:
    ours, theirs = await pair_of_sockets()
    OPENED.extend((ours[1], theirs[1]))
    return ours, theirs


async def both(_: Path | None = None) -> Both:
    (reader, writer), (end_reader, end) = await raw()
    stream = ByteStream(writer, on_data=lambda: MOVED.append("moved"))
    stream.take_over(reader)
    return stream, end_reader, end


def tls_for(folder: Path) -> SSL.Connection:
    start = TlsStart()
    ClientTls(load_authority(folder, now=now_utc()), now=now_utc).tls_start_client(start, SECURE)
    assert start.connection
    return start.connection


async def secured(folder: Path) -> Both:
    stream, reader, writer = await both()
    await asyncio.gather(stream.handshake(tls_for(folder)), writer.start_tls(untrusting(), server_hostname="a.test"))
    return stream, reader, writer


def taken(stream: ByteStream) -> bytes:
    return bytes(stream.buffer.maybe_extract_at_most(len(stream.buffer)) or b"")


async def test_take_over_puts_data_that_was_read_before_first() -> None:
    (reader, writer), (_, end) = await raw()
    end.write(b"second")
    await asyncio.sleep(0.02)
    stream = ByteStream(writer, on_data=lambda: None)
    stream.take_over(reader, b"first, ")
    assert taken(stream) == b"first, second"
    end.write(b"third")
    assert await stream.more()
    assert taken(stream) == b"third"


async def test_take_over_notices_an_end_that_arrived_before() -> None:
    (reader, writer), (_, end) = await raw()
    end.write_eof()
    await asyncio.sleep(0.02)
    stream = ByteStream(writer, on_data=lambda: None)
    stream.take_over(reader)
    assert (stream.ended, await stream.more()) == (True, False)


@pytest.mark.parametrize("kind", [both, secured])
async def test_passes_bytes_in_both_directions_and_calls_on_end_once(kind: Kind, tmp_path: Path) -> None:
    stream, reader, end = await kind(tmp_path)
    ends: list[str] = []
    stream.on_end = lambda: ends.append("ended")
    end.write(MANY)
    got = b""
    while len(got) < len(MANY):
        assert await stream.more()
        got += taken(stream)
    assert (got, ends) == (MANY, [])
    stream.write(MANY)
    assert await reader.readexactly(len(MANY)) == MANY
    await stream.drain()
    assert stream.is_usable
    stream.close()
    assert await reader.read() == b""
    end.close()
    await asyncio.sleep(0.05)
    assert (ends, stream.ended, stream.is_reset, stream.is_usable) == (["ended"], True, False, False)
    stream.close()


@pytest.mark.parametrize("kind", [both, secured])
async def test_pauses_reading_when_the_buffer_is_full_and_resumes(kind: Kind, tmp_path: Path) -> None:
    stream, _, end = await kind(tmp_path)
    end.write(MANY)
    await asyncio.sleep(0.1)
    held = len(stream.buffer)
    assert HELD_BYTES < held < len(MANY) / 2
    got = taken(stream)
    while len(got) < len(MANY):
        assert await stream.more()
        got += taken(stream)
    assert got == MANY


@pytest.mark.parametrize("reason", ["crowded", "reads_little"])
async def test_reads_small_parts_if_crowded_or_told_to(reason: str) -> None:
    (reader, writer), (_, end) = await raw()
    stream = ByteStream(writer, on_data=lambda: None, crowded=lambda: reason == "crowded")
    stream.reads_little = reason == "reads_little"
    stream.take_over(reader)
    end.write(b"x" * 200_000)
    assert await stream.more()
    assert len(stream.buffer) <= 32_768


async def test_drain_waits_for_the_other_side_and_fails_when_the_connection_is_lost() -> None:
    stream, reader, end = await both()
    stream.write(MANY)
    waiting = asyncio.create_task(stream.drain())
    await asyncio.sleep(0.02)
    assert not waiting.done()
    await reader.readexactly(len(MANY))
    await waiting
    stream.write(MANY * 2)
    waiting = asyncio.create_task(stream.drain())
    await asyncio.sleep(0.02)
    end.transport.abort()
    with pytest.raises(ConnectionResetError):
        await waiting
    with pytest.raises(ConnectionResetError):
        await stream.drain()


async def test_distinguishes_a_reset_from_an_orderly_end() -> None:
    stream, _, _ = await both()
    stream.connection_lost(ConnectionResetError())
    assert (stream.ended, stream.is_reset) == (True, True)


async def test_a_cut_tls_connection_has_no_close_notify(tmp_path: Path) -> None:
    stream, reader, _ = await secured(tmp_path)
    stream.write(b"part")
    stream.cut()
    assert await reader.readexactly(4) == b"part"
    stream.write(b"nothing more")


async def test_reset_ends_the_connection_and_can_be_repeated() -> None:
    stream, reader, _ = await both()
    stream.reset()
    assert await reader.read() == b""
    stream.reset()


async def test_drop_does_not_wait_until_the_other_side_reads() -> None:
    stream, _, end = await both()
    stream.write(MANY)
    stream.drop()
    await asyncio.sleep(0.02)
    assert stream.ended
    assert not end.is_closing()


async def test_drop_closes_a_connection_with_nothing_to_send() -> None:
    stream, reader, _ = await both()
    stream.drop()
    assert await reader.read() == b""


@pytest.mark.parametrize("kind", [both, secured])
async def test_linger_delivers_the_last_response_while_the_other_side_still_sends(kind: Kind, tmp_path: Path) -> None:
    stream, reader, end = await kind(tmp_path)
    stream.write(b"no")
    lingering = asyncio.create_task(stream.linger(5.0))
    end.write(MANY[: LINGER_BYTES // 2])
    assert await reader.read() == b"no"
    end.transport.abort()
    await lingering
    assert (stream.ended, taken(stream)) == (True, b"")


@pytest.mark.parametrize("kind", [both, secured])
async def test_a_finished_stream_still_receives_and_sends_no_more(kind: Kind, tmp_path: Path) -> None:
    stream, reader, end = await kind(tmp_path)
    stream.write(b"the last")
    stream.write(b"")
    stream.finish()
    stream.finish()
    assert await reader.read() == b"the last"
    if kind is both:  # asyncio's TLS would end with the other side
        end.write(b"more")
        assert await stream.more()
        assert taken(stream) == b"more"
    stream.close()


async def test_sends_no_tls_alert_about_data_after_finish(tmp_path: Path) -> None:
    stream, reader, _ = await secured(tmp_path)
    stream.finish()
    stream._tls.bio_write(b"\x17\x03\x03\x00\x14" + b"junk" * 5)  # type: ignore[union-attr] # it has TLS
    stream._decrypt(stream._tls)  # type: ignore[arg-type] # as above
    assert (stream.is_reset, await reader.read()) == (True, b"")


async def test_lingering_ends_after_its_time() -> None:
    stream, reader, _ = await both()
    await stream.linger(0.01)
    assert (await reader.read(), stream.ended) == (b"", False)


async def test_lingering_ends_after_a_megabyte() -> None:
    stream, _, end = await both()
    lingering = asyncio.create_task(stream.linger(5.0))
    end.write(bytes(2 * LINGER_BYTES))
    await asyncio.wait_for(lingering, 4.0)
    assert not stream.ended


async def test_receives_data_that_arrives_together_with_the_end(tmp_path: Path) -> None:
    stream, _, end = await secured(tmp_path)
    waiting = asyncio.create_task(stream.more())
    await asyncio.sleep(0)
    end.write(b"last words")
    end.close()
    assert await waiting
    await asyncio.sleep(0.05)
    assert (taken(stream), await stream.more()) == (b"last words", False)


async def test_tls_records_that_cannot_be_decrypted_end_the_stream_as_a_reset(tmp_path: Path) -> None:
    stream, _, end = await secured(tmp_path)
    stream._tls.bio_write(b"\x17\x03\x03\x00\x14" + b"junk" * 5)  # type: ignore[union-attr] # it has TLS
    end.write(b"good")
    await stream.more()
    assert (stream.ended, stream.is_reset) == (True, True)
    stream.close()


async def test_a_tls_handshake_that_has_begun_fails_when_the_connection_closes(tmp_path: Path) -> None:
    (reader, writer), (_, end) = await raw()
    stream = ByteStream(writer, on_data=lambda: None)
    stream.take_over(reader, b"\x16\x03\x01")
    assert stream.alpn == b""
    end.write_eof()
    with pytest.raises(ConnectionAbortedError, match=r"^connection closed\Z"):
        await stream.handshake(tls_for(tmp_path))


async def test_a_malformed_tls_handshake_raises_an_error(tmp_path: Path) -> None:
    (reader, writer), _ = await raw()
    stream = ByteStream(writer, on_data=lambda: None)
    stream.take_over(reader, b"\x16\x03\x01junkjunk")
    with pytest.raises(SSL.Error):
        await stream.handshake(tls_for(tmp_path))
    stream.write(b"no TLS, nothing is sent")
    stream.close()


@pytest.mark.parametrize("kind", [both, secured])
async def test_a_stream_is_quiet_until_data_or_an_end_arrives_even_if_not_read_yet(tmp_path: Path, kind: Kind) -> None:
    for data in (b"x", b""):
        stream, _, writer = await kind(tmp_path)
        await asyncio.sleep(0.02)
        assert stream.is_quiet
        writer.write(data)
        if not data:
            writer.transport.abort()
            await asyncio.sleep(0)  # it is closed in the next round
        assert stream.is_usable
        assert not stream.is_quiet
        await asyncio.sleep(0.02)
        assert not stream.is_usable
        assert not stream.is_quiet


async def test_a_stream_with_a_partial_tls_record_is_not_usable(tmp_path: Path) -> None:
    stream, _, writer = await secured(tmp_path)
    await asyncio.sleep(0.02)
    raw_socket = writer.get_extra_info("socket")
    raw_socket._sock.send(b"\x17\x03\x03\x00\x20half")
    await asyncio.sleep(0.02)
    assert not stream.buffer
    assert not stream.is_usable


async def test_a_paused_stream_over_another_tls_layer_is_not_usable(tmp_path: Path) -> None:
    far, reader, writer = await secured(tmp_path)
    stream = ByteStream(writer, on_data=lambda: None)
    stream.take_over(reader)
    await asyncio.sleep(0.02)
    assert stream.is_quiet
    far.write(b"x" * (HELD_BYTES + 1))
    await asyncio.sleep(0.05)
    assert len(stream.buffer) > HELD_BYTES
    taken(stream)
    far.write(b"forged")
    await asyncio.sleep(0.02)
    assert (len(stream.buffer), stream.is_usable, stream.is_quiet) == (0, False, False)


async def test_has_sent_all_is_true_once_the_kernel_has_all_data() -> None:
    stream, reader, _ = await both()
    assert stream.has_sent_all
    stream.write(MANY)
    assert not stream.has_sent_all
    await reader.readexactly(len(MANY))
    await stream.drain()
    assert stream.has_sent_all


async def test_reads_what_came_before_a_reset_that_a_failed_write_reports(tmp_path: Path) -> None:
    stream, _, end = await secured(tmp_path)
    stream._transport.pause_reading()
    end.write(b"the last")
    await end.drain()
    raw: socket.socket = stream._transport.get_extra_info("socket")
    await asyncio.to_thread(select.select, [raw.fileno()], [], [], 30)
    stream.connection_lost(ConnectionResetError())
    assert (taken(stream), stream.ended, stream.is_reset) == (b"the last", True, True)


@given(st.lists(RECORD, max_size=5), st.data())
def test_finds_the_end_of_each_tls_record_however_the_data_is_split(records: list[bytes], data: st.DataObject) -> None:
    ends, whole = {0}, b"".join(records)
    for record in records:
        ends.add(max(ends) + len(record))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)))))
    followed, before = TlsRecords(), 0
    for cut in cuts:
        ended = followed.read(whole[before:cut])
        assert ended == len([end for end in ends if before < end <= cut])
        assert followed.is_at_end is (cut in ends)
        before = cut
