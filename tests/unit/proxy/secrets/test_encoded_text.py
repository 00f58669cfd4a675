from itertools import product

from agent_sandbox.proxy.secrets.encoded_text import PART, ExactFinder, FoldedFinder, FoldedText, HexFinder, HexText
from table_tests import each

TEXT = FoldedText(b"0123456789abcdefGHIJKLMNOPQRSTUV")


def test_finds_overlapping_matches() -> None:
    assert ExactFinder(b"aa").read(b"aaa", 0) == [slice(0, 2), slice(1, 3)]


def test_holds_back_the_longest_possible_start_of_a_match() -> None:
    words = [bytes(word) for size in range(6) for word in product(b"ab", repeat=size)]
    for wanted, data in product(words[1:], words):
        assert ExactFinder(wanted).held(data) == max(
            size for size in range(len(wanted)) if data.endswith(wanted[:size])
        ), (wanted, data)


def test_finds_hex_in_upper_and_lower_case() -> None:
    assert HexFinder(HexText(b"5A6b")).read(b"x5a6B", 0) == [slice(1, 5)]
    assert set(HexText(b"5A6b").literals()) == {b"5a6b", b"5A6b", b"5a6B", b"5A6B"}
    assert HexFinder(HexText(b"5A6b")).held(b"5A6bxx5A6") == 3


@each("text", [b"6b33792f", b"00112233445566778899", b"abcdefabcdef", b"0a0b0c0d0e0f", b"01" * 20])
def test_hex_in_any_case_contains_one_of_four_literals(text: bytes) -> None:
    literals = set(HexText(text).literals())
    assert len(literals) <= 4
    assert max(map(len, literals)) <= PART
    for written in (text, text.upper(), text[:1] + text[1:].upper(), text[:3].upper() + text[3:]):
        assert any(literal in written for literal in literals)


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
def test_finds_text_in_lines_if_one_part_is_unbroken(data: bytes, found: bool) -> None:  # noqa: FBT001
    assert FoldedFinder(TEXT).read(b"x" + data, 0) == ([slice(1, 1 + len(data))] if found else [])
    assert any(literal in data for literal in TEXT.literals()) or not found


@each("width", [60, 255, 256, 257, 600])
def test_finds_a_long_text_in_lines_of_any_width(width: int) -> None:
    text = bytes(97 + place * place % 26 for place in range(600))
    lines = b"\n".join(text[at : at + width] for at in range(0, 600, width))
    assert FoldedFinder(FoldedText(text)).read(lines, 0) == [slice(0, len(lines))]
    assert FoldedFinder(FoldedText(text)).held(lines[:-1]) == len(lines) - 1


def test_holds_back_only_what_the_next_data_could_complete() -> None:
    assert FoldedFinder(TEXT).held(b"xx0123\\r") == 6
    assert FoldedFinder(TEXT).held(b"xx0123\n\n") == 0
    assert FoldedFinder(TEXT).held(b"0123456789\nxx0123") == 4
    assert FoldedFinder(TEXT).held(b"xx0123") == 4


@each("finder", [ExactFinder(b"012345"), HexFinder(HexText(b"012345")), FoldedFinder(FoldedText(b"012345"))])
def test_finds_a_match_that_begins_in_data_without_a_literal(finder: ExactFinder) -> None:
    finder.begin(b"xx01")
    assert finder.held(b"xx01") == 2
    finder.forget(2)
    assert finder.read(b"012345", 2) == [slice(0, 6)]


def test_holds_back_the_longest_beginning_that_the_end_of_the_data_may_continue() -> None:
    end = b"A" * 8
    assert ExactFinder(b"1234" + end + b"5678" + end + b"9999").held(b"z" * 40 + b"1234" + end) == 12
