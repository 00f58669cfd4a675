from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.features.session.clipboard.paste_reader import (
    BEGIN,
    END,
    LONGEST,
    Paste,
    PasteReader,
    image_paths,
    pasted,
)
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


@each(
    "text, paths",
    (
        ("/pic/a.png", ("/pic/a.png",)),
        ("'/pic/a b.png' ", ("/pic/a b.png",)),
        ('"/pic/a b.JPG"\n', ("/pic/a b.JPG",)),
        (r"/pic/a\ \(1\).webp", ("/pic/a (1).webp",)),
        ("file:///pic/%C3%A4.gif", ("/pic/ä.gif",)),
        ("file://localhost/pic/a.gif", ("/pic/a.gif",)),
        ("/pic/a.png /pic/b.png", ("/pic/a.png", "/pic/b.png")),
        ("/pic/a.png\r\n/pic/b.png", ("/pic/a.png", "/pic/b.png")),
        (r"D:\pictures\a b.png", ("/mnt/d/pictures/a b.png",)),
        (r'"C:\a.png"', ("/mnt/c/a.png",)),
        ("file://other.test/pic/a.png", ()),
        ("file://[/a.png", ()),
        ("look at /pic/a.png", ()),
        ("/pic/a.png\x1b[2J", ()),
        ("/pic/a.pn\u200bg", ()),
        ("/etc/passwd", ()),
        ("/pic/a.png /etc/passwd", ()),
        ("tmp/a.png", ()),
        ("~/a.png", ()),
        ("$HOME/a.png", ()),
        ("'/pic/a.png", ()),
        (" ".join(["/pic/a.png"] * 11), ()),
        ("", ()),
    ),
)
def test_reads_text_that_has_only_paths_of_images(text: str, paths: tuple[str, ...]) -> None:
    assert image_paths(text) == paths


def test_a_path_with_spaces_needs_no_quotes_if_it_exists(tmp_path: Path) -> None:
    image = tmp_path / "a b.png"
    assert image_paths(str(image)) == ()
    image.touch()
    assert image_paths(f"{image} ") == (str(image),)
