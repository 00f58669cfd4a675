import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.proxy.limits import STEP_ITEMS
from agent_sandbox.proxy.wire.websocket_frames import BadFrameError, Frames
from agent_sandbox.proxy.wire.websocket_frames import frame as server_frame
from table_tests import each

MIB = 1_048_576
MASK = b"mask"
LENGTHS = st.sampled_from([0, 1, 125, 126, 127, 300])


def frame(first: int, size: int, *, masked: bool = False) -> bytes:
    """Return a frame whose length is written as short as it can be."""
    kind, written = (size, b"") if size < 126 else (126, size.to_bytes(2)) if size < 65_536 else (127, size.to_bytes(8))
    head = bytes([first, kind | (0x80 if masked else 0)]) + written
    return head + (MASK if masked else b"") + b"x" * size


def message(sizes: list[int], *, masked: bool) -> bytes:
    """Return a message in as many frames, with a ping between two."""
    kinds = [0x02, *[0x00] * (len(sizes) - 1)]
    kinds[-1] |= 0x80
    frames = [frame(kind, size, masked=masked) for kind, size in zip(kinds, sizes, strict=True)]
    return frame(0x89, 3, masked=masked).join(frames)


def test_thousands_of_frames_are_forwarded_in_parts() -> None:
    data = frame(0x89, 0) * 1_000
    parts = list(Frames(masked=False, longest=MIB).read(data))
    assert (b"".join(parts), max(map(len, parts))) == (data, 2 * STEP_ITEMS)


@given(st.lists(st.lists(LENGTHS, min_size=1, max_size=4), max_size=4), st.booleans(), st.integers(1, 40))
def test_forwards_frames_unchanged_however_the_data_is_split(
    messages: list[list[int]],
    masked: bool,  # noqa: FBT001
    step: int,
) -> None:
    side = Frames(masked=masked, longest=MIB)
    data = b"".join(message(sizes, masked=masked) for sizes in messages) + frame(0x88, 2, masked=masked)
    passed = b"".join(part for at in range(0, len(data), step) for part in side.read(data[at : at + step]))
    assert (passed, side.count, side.closed) == (data, sum(map(sum, messages)), True)


@each(
    ("data", "why"),
    [
        (b"SSH-2.0-server\r\n", "a frame of unknown type"),
        (frame(0xC2, 1), "a frame of unknown type"),
        (frame(0x83, 1), "a frame of unknown type"),
        (frame(0x8B, 1), "a frame of unknown type"),
        (frame(0x82, 1, masked=True), "a frame with the wrong masking"),
        (frame(0x89, 126), "a control frame that is too long or fragmented"),
        (frame(0x09, 1), "a control frame that is too long or fragmented"),
        (frame(0x80, 1), "a continuation without a message, or a message within another"),
        (frame(0x02, 1) + frame(0x82, 1), "a continuation without a message, or a message within another"),
        (frame(0x82, 1) + frame(0x80, 1), "a continuation without a message, or a message within another"),
        (b"\x82\x7e\x00\x7d", "a frame length that is not minimally encoded"),
        (b"\x82\x7f" + (65_535).to_bytes(8), "a frame length that is not minimally encoded"),
        (b"\x82\x7f" + b"\xff" * 8, "a message of more than 1048576 bytes"),
        (frame(0x02, MIB) + frame(0x80, 1), "a message of more than 1048576 bytes"),
    ],
)
def test_rejects_malformed_and_misplaced_frames(data: bytes, why: str) -> None:
    with pytest.raises(BadFrameError) as caught:
        list(Frames(masked=False, longest=MIB).read(data))
    assert str(caught.value) == why


def test_rejects_an_unmasked_frame_from_a_client() -> None:
    with pytest.raises(BadFrameError):
        list(Frames(masked=True, longest=MIB).read(frame(0x82, 1)))


def test_drops_data_after_a_close_frame() -> None:
    side = Frames(masked=False, longest=MIB)
    assert b"".join(side.read(frame(0x88, 2) + b"SSH-2.0")) == frame(0x88, 2)
    assert (list(side.read(b"more")), side.closed) == ([b""], True)


def test_holds_back_an_incomplete_frame_head() -> None:
    side = Frames(masked=True, longest=MIB)
    data = frame(0x02, 65_536, masked=True)
    assert (list(side.read(data[:13])), list(side.read(data[13:])), side.count) == ([b""], [data], 65_536)


@each("size", [0, 1, 125, 126, 65_535, 65_536])
def test_builds_valid_frames(size: int) -> None:
    frames = Frames(masked=False, longest=MIB)
    first, last = server_frame(0x01, b"x" * size, ends=False), server_frame(0x00, b"x" * size, ends=True)
    assert b"".join(frames.read(first)) == first == frame(0x01, size)
    assert not frames.message_ended
    assert b"".join(frames.read(last)) == last == frame(0x80, size)
    assert frames.message_ended
