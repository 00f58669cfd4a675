import pytest

from agent_sandbox.proxy.secrets.redacted_frames import server_frames
from agent_sandbox.proxy.secrets.redaction import Echoes
from agent_sandbox.proxy.wire.websocket_frames import BINARY, CLOSE, CONTINUES, PING, TEXT, BadFrameError, Frames, frame

ECHOES = Echoes([b"secret", b"a" * 30])
Read = list[tuple[int, bytes]]
MESSAGES = [
    (frame(TEXT, b"no echo", ends=True), [(TEXT, b"no echo")]),
    (frame(TEXT, b"", ends=True), [(TEXT, b"")]),
    (frame(BINARY, b"a secret!", ends=True), [(BINARY, b"a ******!")]),
    (frame(TEXT, b"sec", ends=False) + frame(CONTINUES, b"ret", ends=True), [(TEXT, b"******")]),
    (frame(TEXT, b"sec", ends=False) + frame(CONTINUES, b"", ends=True), [(TEXT, b"sec")]),
    (
        frame(TEXT, b"<sec", ends=False) + frame(PING, b"a secret", ends=True) + frame(CONTINUES, b"ret>", ends=True),
        [(PING, b"a ******"), (TEXT, b"<******>")],
    ),
    (frame(TEXT, b"sec", ends=True) + frame(TEXT, b"ret", ends=True), [(TEXT, b"sec"), (TEXT, b"ret")]),
    (frame(TEXT, b"secret " * 30, ends=True), [(TEXT, b"****** " * 30)]),
    (frame(CLOSE, b"\x03\xe8secret", ends=True) + b"more", [(CLOSE, b"\x03\xe8******")]),
]


def messages(data: bytes) -> Read:
    """Return what a client reads: control frames and complete messages, each with its opcode."""
    found: Read = []
    opcode, message = CONTINUES, b""
    assert b"".join(Frames(masked=False, longest=30_000).read(data)) == data
    while data:
        size, at = data[1], 2
        if size == 126:
            size, at = int.from_bytes(data[2:4]), 4
        kind, ends, payload, data = data[0] & 15, data[0] & 128, data[at : at + size], data[at + size :]
        if kind >= CLOSE:
            found.append((kind, payload))
            continue
        opcode, message = kind or opcode, message + payload
        if ends:
            found.append((opcode, message))
            message = b""
    return found


@pytest.mark.parametrize(("sent", "read"), MESSAGES)
def test_redacts_an_echo_in_a_message_that_arrives_in_any_pieces(sent: bytes, read: list[tuple[int, bytes]]) -> None:
    for size in (1, 2, 3, 5, len(sent)):
        frames = server_frames(ECHOES, longest=10_000)
        shown = b"".join(part for at in range(0, len(sent), size) for part in frames.read(sent[at : at + size]))
        assert messages(shown) == read
        assert frames.count == sum(len(payload) for kind, payload in read if kind < CLOSE)
        assert frames.closed is (read[-1][0] == CLOSE)


def test_a_complete_message_stays_one_frame() -> None:
    frames = server_frames(ECHOES, longest=10_000)
    assert b"".join(frames.read(frame(TEXT, b"a secret", ends=True))) == frame(TEXT, b"a ******", ends=True)


def test_a_long_message_with_an_echo_becomes_several_frames() -> None:
    frames = server_frames(ECHOES, longest=1_000_000)
    sent = frame(TEXT, b"." * 10_000 + b"secret" + b"." * 10_000, ends=True)
    shown = list(frames.read(sent))
    assert messages(b"".join(shown)) == [(TEXT, b"." * 10_000 + b"******" + b"." * 10_000)]
    assert len(shown) > 5


def test_a_long_message_may_be_held_back_whole() -> None:
    frames = server_frames(Echoes([b"x" * 10_000]), longest=1_000_000)
    assert b"".join(frames.read(frame(TEXT, b"x" * 9_000, ends=False))) == b""
    assert messages(b"".join(frames.read(frame(CONTINUES, b"", ends=True)))) == [(TEXT, b"x" * 9_000)]


def test_holds_back_only_the_possible_start_of_an_echo() -> None:
    frames = server_frames(ECHOES, longest=1_000_000)
    sent = frame(TEXT, b"x" * 500_000 + b"secre", ends=False)
    assert len(b"".join(frames.read(sent))) == len(sent) - 5


@pytest.mark.parametrize("bad", [b"\xc1\x01x", b"\x81\x81maskx", b"\x80\x01x", b"\x83\x00"])
def test_rejects_malformed_frames(bad: bytes) -> None:
    with pytest.raises(BadFrameError):
        list(server_frames(ECHOES, longest=10).read(bad))


def test_passes_frames_unchanged_without_echoes() -> None:
    sent = frame(TEXT, b"a secret", ends=True)
    assert b"".join(server_frames(Echoes(), longest=10).read(sent)) == sent
