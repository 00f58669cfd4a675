from __future__ import annotations

from agent_sandbox.proxy.secrets.encoded_text import ExactFinder, FoldedFinder, FoldedText, HexFinder, HexText
from table_tests import each

TEXT = FoldedText(b"0123456789abcdefGHIJKLMNOPQRSTUV")


def test_exact_bytes_are_found_also_where_they_overlap() -> None:
    assert ExactFinder(b"aa").read(b"aaa", 0) == [slice(0, 2), slice(1, 3)]
    assert (ExactFinder(b"aab").held(b"xaa"), ExactFinder(b"aab").held(b"")) == (2, 0)


def test_hex_is_found_in_any_case() -> None:
    assert HexFinder(HexText(b"5A6b")).read(b"x5a6B", 0) == [slice(1, 5)]
    assert set(HexText(b"5A6b").literals()) == {b"5a6b", b"5A6b", b"5a6B", b"5A6B"}


@each(
    ("data", "found"),
    [
        (b"0123456789abcdefGHIJKLMNOPQRSTUV", True),
        (b"0123456789\nabcdefGHIJKLMNOPQRSTUV", True),
        (b"0123456789abcdefGHIJ\\r\\nKLMNOPQRSTUV", True),
        (b"0123456789abcdef\r\nGHIJKLMNOPQRSTUV", True),
        (b"01234\n56789abcdefGHIJKL\nMNOPQRSTUV", False),  # no part is whole
        (b"0123456789abcdef\n\nGHIJKLMNOPQRSTUV", False),
        (b"0123456789abcdef GHIJKLMNOPQRSTUV", False),
    ],
)
def test_a_text_in_lines_is_found_if_one_of_its_parts_is_whole(data: bytes, found: bool) -> None:  # noqa: FBT001
    assert FoldedFinder(TEXT).read(b"x" + data, 0) == ([slice(1, 1 + len(data))] if found else [])


def test_no_more_of_a_text_in_lines_is_held_than_may_go_on() -> None:
    assert FoldedFinder(TEXT).held(b"xx0123\\r") == 6
    assert FoldedFinder(TEXT).held(b"xx0123\n\n") == 0
