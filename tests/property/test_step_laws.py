"""A response is the same for the client, wherever it is split on its way and wherever its filters hand back."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.policy.match.credential_kind import KINDS
from agent_sandbox.proxy.exchange.exchange import Meter
from agent_sandbox.proxy.exchange.tool_list import EventFilter, Room
from agent_sandbox.proxy.secrets.redacted_frames import server_frames
from agent_sandbox.proxy.secrets.redaction import PIECE, Redactor, redact, secret_encodings
from agent_sandbox.proxy.secrets.unpacking import Unpacking
from agent_sandbox.proxy.wire.websocket_frames import TEXT, frame
from packing import PACK, whole

SECRET = b"value-of-the-se/cret+"
ECHOES = secret_encodings(SECRET.decode(), KINDS["bearer"])
LIST = b'data: {"result": {"tools": [{"name": "a"}, {"name": "b", "x": "%s"}]}}\n\n'
# Some are as long as a step, so that what follows lies on its end.
parts = st.sampled_from(
    [SECRET, SECRET[:9], b"value-of-the-se%2Fcret%2B", LIST % SECRET, LIST % b"", b"data: {}\r\n\r\n", b"\n", b"\r"]
    + [b":" + b"x" * (PIECE - size) + b"\n" for size in (2, 9, 30)]
)
bodies = st.lists(parts, max_size=6).map(b"".join)
cuts = st.lists(st.integers(0, 3 * PIECE), max_size=4)


def split(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({0, len(data), *(place for place in places if place < len(data))})
    return [data[begin:end] for begin, end in pairwise(ends)]


def passed(meter: Meter, pieces: list[bytes]) -> bytes | None:
    """Return what the client gets, None if the response breaks off."""
    try:
        return whole(meter, *pieces)
    except ValueError:
        return None
    finally:
        meter.close()


@given(bodies, cuts, st.sampled_from([b"", *sorted(PACK)]), st.sampled_from([0, 1]))
def test_a_body_passes_alike_however_it_is_split(body: bytes, places: list[int], coding: bytes, events: int) -> None:
    room = Room()

    def meter() -> Meter:
        filters = (EventFilter("a".__eq__, room),) * events
        return Meter(unpacking=Unpacking(coding) if coding else None, redactor=Redactor(ECHOES), filters=filters)

    sent = PACK[coding](body) if coding else body
    whole = passed(meter(), [sent])
    assert passed(meter(), split(sent, places)) == whole
    assert SECRET not in (whole or b"")
    assert events or whole == redact(ECHOES, body)
    assert room.left == Room().left


@given(st.lists(bodies, max_size=3), cuts)
def test_messages_pass_alike_however_they_are_split(messages: list[bytes], places: list[int]) -> None:
    def payloads(pieces: list[bytes]) -> list[bytes]:
        """Return the messages that the client gets."""
        frames = server_frames(ECHOES, longest=1 << 20)
        data = b"".join(part for piece in pieces for part in frames.read(piece))
        got, at, message = list[bytes](), 0, b""
        while at < len(data):
            size, head = data[at + 1], 2
            if size == 126:
                size, head = int.from_bytes(data[at + 2 : at + 4]), 4
            message += data[at + head : at + head + size]
            if data[at] & 0x80:
                got, message = [*got, message], b""
            at += head + size
        return got

    sent = b"".join(frame(TEXT, message, ends=True) for message in messages)
    assert payloads(split(sent, places)) == payloads([sent]) == [redact(ECHOES, message) for message in messages]
