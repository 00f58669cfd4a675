"""Work that a server's data causes is done in steps of bounded work, whatever the data (invariant I18).

A unit of work is a call of a function, in Python or C. Each input repeats what causes the most work for its size.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from agent_sandbox.policy.match.credential_kind import KINDS
from agent_sandbox.proxy.exchange.exchange import Meter
from agent_sandbox.proxy.exchange.tool_list import EventFilter, JsonFilter, Room
from agent_sandbox.proxy.limits import STEP_BYTES
from agent_sandbox.proxy.secrets.error_code import ErrorCode
from agent_sandbox.proxy.secrets.redacted_frames import server_frames
from agent_sandbox.proxy.secrets.redaction import PIECE, Redactor, secret_encodings
from agent_sandbox.proxy.secrets.unpacking import UNPACKERS, UnpackError, Unpacking
from agent_sandbox.proxy.wire.websocket_frames import PING, TEXT, Frames, frame
from packing import PACK

PROXY = Path(__file__).resolve().parents[2] / "src/agent_sandbox/proxy"
# Calls in a step; 2,000 to 10,000 are a millisecond.
MOST_CALLS = 75_000
# Bytes of input: as one step, most would make far more calls.
SIZE = STEP_BYTES

SECRET = "value-of-the-se/cret+"
ECHOES = secret_encodings(SECRET, KINDS["bearer"])
list(Redactor(ECHOES).feed(b"x"))  # some tables are made only once
UNITS = (
    *(b"\n", b"\r", b"a\n", b":\n", b"data\n", b"data:{}\n\n", b"data:1\n\n", b"event:\n", b"{}", b"[", b"1,"),
    *(b"\\", b"%", b"&", b"%25", b"&amp;", b"\\\\", b"\\u005c", b"=\n", b"\0", b"v", b"value-of", b"dmFsdWUt", b"76"),
    *(
        b"%76",
        b"=76",
        b"_x0076_",
        b"\\u0076",
        b"&#118;",
        SECRET.encode(),
        b"value-of-the-se%252",
        b"value-of-the-se&amp;#",
    ),
)


class Steps:
    """The steps in which an iterator makes its pieces: the most calls, and the most bytes of output."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.calls = self.size = self.count = 0
        piece: bytes | None = b""
        while piece is not None:
            self._calls = 0
            sys.setprofile(self._note)
            try:
                piece = next(pieces, None)
            except UnpackError:
                piece = None
            finally:
                sys.setprofile(None)
            self.calls, self.size = max(self.calls, self._calls), max(self.size, len(piece or b""))
            self.count += 1

    def _note(self, _: FrameType, event: str, __: object) -> None:
        self._calls += event in {"call", "c_call"}


def shows(_: str) -> bool:
    return True


METERS: dict[str, Callable[[], Meter]] = {
    "EventFilter": lambda: Meter(filters=(EventFilter(shows, Room()),)),
    "JsonFilter": lambda: Meter(filters=(JsonFilter(bytes, Room()),)),
    "ErrorCode": lambda: Meter(filters=(ErrorCode(("x",), ()),)),
    "Redactor": lambda: Meter(redactor=Redactor(ECHOES)),
    "all": lambda: Meter(redactor=Redactor(ECHOES), filters=(EventFilter(shows, Room()),)),
}
FRAMES: dict[str, Callable[[], Frames]] = {
    "Frames": lambda: Frames(masked=False, longest=SIZE),
    "RedactedFrames": lambda: server_frames(ECHOES, longest=SIZE),
}


def many(unit: bytes, size: int = SIZE) -> bytes:
    return unit * (size // len(unit))


@pytest.mark.parametrize("name", METERS)
def test_a_body_is_filtered_in_steps(name: str) -> None:
    for unit in UNITS:
        one = Steps(METERS[name]().pieces(many(unit)))
        assert (one.calls <= MOST_CALLS, one.size <= SIZE) == (True, True), (unit, vars(one))


@pytest.mark.parametrize("name", FRAMES)
def test_frames_are_forwarded_in_steps(name: str) -> None:
    for unit in UNITS:
        short = [many(frame(kind, unit, ends=True), 2 * PIECE) for kind in (TEXT, PING)]
        for data in (*short, frame(TEXT, many(unit, 2 * PIECE), ends=True)):
            one = Steps(FRAMES[name]().read(data))
            assert (one.calls <= MOST_CALLS, one.size <= 2 * SIZE) == (True, True), (unit, vars(one))


@pytest.mark.parametrize("coding", sorted(UNPACKERS))
@pytest.mark.parametrize("unit", [b"\n", b"data:{}\n\n", b"%76"])
def test_what_a_few_bytes_decompress_to_is_filtered_in_steps(coding: bytes, unit: bytes) -> None:
    packed = PACK[coding](many(unit))
    assert Steps(Unpacking(coding).feed(packed)).size <= STEP_BYTES
    filters = (EventFilter(shows, Room()),)
    one = Steps(Meter(unpacking=Unpacking(coding), redactor=Redactor(ECHOES), filters=filters).pieces(packed))
    assert (one.calls <= MOST_CALLS, one.size <= STEP_BYTES) == (True, True), vars(one)
    assert one.count > 2


def test_every_filter_redactor_and_decoder_is_tested() -> None:
    named = set()
    for path in PROXY.rglob("*.py"):
        classes = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef))
        named |= {
            one.name
            for one in classes
            for part in one.body
            if isinstance(part, ast.FunctionDef) and (part.name == "feed" or "Frames" in one.name)
        }
    assert PACK.keys() == UNPACKERS.keys()
    assert named - {"Stage", "Unpacking"} == (METERS.keys() | FRAMES.keys()) - {"all"}
