from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.runtime.terminal.paste_reader import BEGIN, END, LONGEST, Paste, PasteReader, pasted
from table_tests import each


def read(*parts: bytes) -> list[bytes | Paste]:
    """Return the pastes and the other bytes in these parts."""
    reader = PasteReader()
    return [found for part in parts for found in reader.feed(part)]


def sent(found: list[bytes | Paste]) -> bytes:
    """Return the bytes that the terminal sent."""
    return b"".join(one.sent if isinstance(one, Paste) else one for one in found)


@each(
    "parts, expected",
    (
        ((b"ls\r",), [b"ls\r"]),
        ((b"a" + pasted("x") + b"b",), [b"a", Paste(pasted("x"), b"x"), b"b"]),
        ((BEGIN + b"/pic", b"/a.png" + END), [Paste(pasted("/pic/a.png"), b"/pic/a.png")]),
        ((pasted(""),), [Paste(pasted(""))]),
        ((b"\x16",), [Paste(b"\x16")]),
        ((b"\x1b[118;5u",), [Paste(b"\x1b[118;5u")]),
        ((b"a\x16",), [b"a\x16"]),
        ((BEGIN, b"\x16", END), [Paste(BEGIN + b"\x16" + END, b"\x16")]),
        ((BEGIN[:3], BEGIN[3:] + b"x" + END), [BEGIN[:3], BEGIN[3:] + b"x" + END]),
        ((BEGIN + b"x" * (LONGEST + 1), b"y" + END + b"z"), [BEGIN + b"x" * (LONGEST + 1), b"y" + END, b"z"]),
    ),
)
def test_finds_pastes(parts: tuple[bytes, ...], expected: list[bytes | Paste]) -> None:
    assert read(*parts) == expected


PIECES = st.sampled_from((BEGIN, END, b"/pic/a.png", b"\x16", b"\x1b", b"[20", b"1~", b"x" * LONGEST))


@given(st.lists(PIECES, max_size=8).map(b"".join), st.lists(st.integers(min_value=0, max_value=40), max_size=4))
def test_no_byte_is_lost_or_added(data: bytes, places: list[int]) -> None:
    ends = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    reader = PasteReader()
    parts = [data[start:end] for start, end in pairwise(ends) if start < end]
    assert sent([found for part in parts for found in reader.feed(part)]) + reader._held == data
