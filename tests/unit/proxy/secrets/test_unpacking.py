import asyncio
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.proxy.secrets import unpacking as module
from agent_sandbox.proxy.secrets.unpacking import (
    LEAST_SPARE,
    MOST_SPARE,
    MOST_TIMES,
    PIECE,
    SPARE,
    UNPACKERS,
    OpenUnpackings,
    UnpackError,
    Unpacking,
)
from packing import PACK

codings = st.sampled_from(sorted(UNPACKERS))


@given(codings, st.binary(max_size=500), st.lists(st.integers(0, 600), max_size=4))
def test_decompresses_data_that_arrives_in_any_chunks(coding: bytes, data: bytes, cuts: list[int]) -> None:
    packed, unpacking = PACK[coding](data), Unpacking(coding)
    places = sorted({0, len(packed), *(cut for cut in cuts if cut < len(packed))})
    assert b"".join(part for begin, end in pairwise(places) for part in unpacking.feed(packed[begin:end])) == data
    unpacking.end()


def test_every_coding_is_tested() -> None:
    assert PACK.keys() == UNPACKERS.keys()


@pytest.mark.parametrize("coding", sorted(UNPACKERS))
def test_a_bomb_is_not_decompressed(coding: bytes) -> None:
    unpacking, sizes = Unpacking(coding), list[int]()
    packed = PACK[coding](bytes(64 << 20))

    def feed_all() -> None:
        for at in range(0, len(packed), 1_000):
            sizes.extend(map(len, unpacking.feed(packed[at : at + 1_000])))

    with pytest.raises(UnpackError, match=rf"^its body is more than {MOST_TIMES} times as large decompressed\Z"):
        feed_all()
    assert sum(sizes) <= SPARE + MOST_TIMES * len(packed)


@pytest.mark.parametrize("coding", sorted(UNPACKERS))
def test_a_bomb_after_data_that_did_not_shrink_is_not_decompressed(coding: bytes) -> None:
    packed = PACK[coding](random.Random(1).randbytes(512 << 10) + bytes(32 << 20))  # noqa: S311 - only incompressible
    with pytest.raises(UnpackError, match=rf"^its body is more than {MOST_TIMES} times as large decompressed\Z"):
        list(Unpacking(coding).feed(packed))


@pytest.mark.parametrize(("others", "most"), [(0, MOST_SPARE), (255, LEAST_SPARE), (9_999, LEAST_SPARE)])
@pytest.mark.parametrize("coding", sorted(UNPACKERS))
def test_many_bodies_at_once_share_what_a_piece_may_become(coding: bytes, others: int, most: int) -> None:
    beside = OpenUnpackings()
    held = [Unpacking(b"gzip", beside) for _ in range(others)]
    packed = PACK[coding](random.Random(1).randbytes(512 << 10) + bytes(32 << 20))  # noqa: S311 - only incompressible
    unpacking, sizes = Unpacking(coding, beside), list[int]()

    def feed_all() -> None:
        for at in range(0, len(packed), PIECE):
            sizes.append(0)
            for part in unpacking.feed(packed[at : at + PIECE]):
                sizes[-1] += len(part)

    with pytest.raises(UnpackError):
        feed_all()
    assert PIECE <= max(sizes) <= most
    assert len(held) == others


@pytest.mark.parametrize("coding", sorted(UNPACKERS))
def test_a_body_may_become_forty_times_as_large_beside_any_number_of_others(coding: bytes) -> None:
    beside = OpenUnpackings()
    held = [Unpacking(b"gzip", beside) for _ in range(9_999)]
    text = b"".join(random.Random(number).randbytes(60) + bytes(3_000) for number in range(2_000))  # noqa: S311 - as above
    packed, unpacking = PACK[coding](text), Unpacking(coding, beside)
    assert len(text) > 40 * len(packed)
    assert b"".join(unpacking.feed(packed)) == text
    assert len(held) == 9_999


@pytest.mark.parametrize("coding", sorted(UNPACKERS))
def test_returns_nearly_all_that_each_piece_becomes(coding: bytes) -> None:
    text = b"".join(b"%d: %d words of a log that says the same again\n" % (n, n * n % 977) for n in range(150_000))
    packed, unpacking = PACK[coding](text), Unpacking(coding)
    sizes = [len(b"".join(unpacking.feed(packed[at : at + PIECE]))) for at in range(0, len(packed), PIECE)]
    assert sum(sizes) == len(text)
    assert max(sizes) < 1 << 20


@pytest.mark.parametrize(("coding", "most"), [(b"br", 16), (b"zstd", 32)])
def test_the_windows_of_all_decoders_have_a_limit(coding: bytes, most: int) -> None:
    beside, packed = OpenUnpackings(), PACK[coding](b"text")
    held = [Unpacking(coding, beside) for _ in range(most)]
    refused, small = Unpacking(coding, beside), Unpacking(b"gzip", beside)
    with pytest.raises(UnpackError, match="the proxy decompresses too many other responses"):
        list(refused.feed(packed))
    assert b"".join(small.feed(PACK[b"gzip"](b"text"))) == b"text"
    for one in (held[0], held[0], refused):
        one.close()
    assert b"".join(Unpacking(coding, beside).feed(packed)) == b"text"
    held.clear()
    assert (beside.count, beside.windows) == (1, 0)


def full() -> tuple[OpenUnpackings, list[Unpacking]]:
    """Return all decoders of brotli that there can be."""
    beside = OpenUnpackings()
    return beside, [Unpacking(b"br", beside) for _ in range(16)]


async def waiting(beside: OpenUnpackings, *codings: bytes) -> tuple[list[Unpacking], list[asyncio.Task[None]]]:
    """Return what waits for a decoder, in this order."""
    found = [Unpacking(coding, beside) for coding in codings]
    tasks = [asyncio.create_task(one.ready()) for one in found]
    await asyncio.sleep(0)
    return found, tasks


def is_ready(one: Unpacking, coding: bytes = b"br") -> bool:
    try:
        return b"".join(one.feed(PACK[coding](b"text"))) == b"text"
    except UnpackError:
        return False


async def test_decoders_go_to_those_that_wait_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 600)
    beside, held = full()
    (first, second, third), tasks = await waiting(beside, b"br", b"zstd", b"zstd")
    assert is_ready(Unpacking(b"gzip", beside), b"gzip")  # it has no part in this
    held[0].close()
    late = Unpacking(b"zstd", beside)
    await tasks[0]
    assert (is_ready(first), is_ready(second, b"zstd"), is_ready(late, b"zstd")) == (True, False, False)
    held[1].close()
    await asyncio.gather(*tasks)
    assert (is_ready(second, b"zstd"), is_ready(third, b"zstd")) == (True, True)
    held[2].close()
    await late.ready()
    assert (is_ready(late, b"zstd"), len(beside.waiting)) == (True, 0)


async def test_a_response_that_left_waits_no_longer_and_gets_no_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 600)
    beside, held = full()
    (closed, _cancelled, last), tasks = await waiting(beside, b"br", b"br", b"br")
    closed.close()
    await tasks[0]
    tasks[1].cancel()
    await asyncio.gather(tasks[1], return_exceptions=True)
    held[0].close()
    await tasks[2]
    assert (is_ready(closed), is_ready(last), beside.count, len(beside.waiting)) == (False, True, 16, 0)


@pytest.mark.parametrize(("seconds", "most"), [(0.01, 64), (600, 0)])
async def test_waiting_for_a_decoder_is_bounded(monkeypatch: pytest.MonkeyPatch, seconds: float, most: int) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", seconds)
    monkeypatch.setattr(module, "MOST_WAITING", most)
    beside, _held = full()
    refused = Unpacking(b"br", beside)
    await refused.ready()
    with pytest.raises(UnpackError, match="the proxy decompresses too many other responses"):
        list(refused.feed(PACK[b"br"](b"text")))
    assert len(beside.waiting) == 0


@pytest.mark.parametrize("coding", sorted(UNPACKERS))
def test_a_closed_body_is_not_decompressed(coding: bytes) -> None:
    beside = OpenUnpackings()
    unpacking = Unpacking(coding, beside)
    unpacking.close()
    with pytest.raises(UnpackError):
        list(unpacking.feed(PACK[coding](b"text")))
    with pytest.raises(UnpackError):
        unpacking.end()
    assert (beside.count, beside.windows) == (0, 0)


@pytest.mark.parametrize("coding", sorted(UNPACKERS))
def test_truncated_or_uncompressed_data_is_an_error(coding: bytes) -> None:
    unpacking = Unpacking(coding)
    list(unpacking.feed(PACK[coding](b"some text" * 99)[:-5]))
    with pytest.raises(UnpackError, match=r"^its compressed body is not complete\Z"):
        unpacking.end()
    with pytest.raises(UnpackError):
        list(Unpacking(coding).feed(b"\xffplain text" * 20))


@pytest.mark.parametrize("coding", sorted(UNPACKERS))
def test_data_after_the_compressed_body_is_an_error(coding: bytes) -> None:
    with pytest.raises(UnpackError):
        list(Unpacking(coding).feed(PACK[coding](b"some text") + b"and the secret"))
