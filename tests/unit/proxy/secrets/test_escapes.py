from collections.abc import Callable
from string import printable, punctuation

from agent_sandbox.proxy.secrets.escapes import (
    LEADS,
    LONGEST,
    LONGEST_TWICE,
    WITHIN,
    beginnings,
    begins_twice,
    escaped_twice,
    escapes,
    is_sign,
    unescaped,
)
from table_tests import each

CHARS = [ord(char) for char in printable if char == " " or char.isprintable()]


def test_every_escape_sequence_begins_with_a_lead_and_has_at_most_the_longest_length() -> None:
    assert len(CHARS) == 95
    assert {escape[0] for char in CHARS for escape in escapes(char)} == set(LEADS)
    assert max(len(escape) for char in CHARS for escape in escapes(char)) == LONGEST


def test_beginnings_are_all_proper_prefixes_of_escape_sequences() -> None:
    assert {b"", b"%", b"%%", b"%u0", b"\\u{2", b"&#x2", b"&so"} <= beginnings(ord("/"))
    assert all(escape[:-1] in beginnings(ord("/")) for escape in escapes(ord("/")))
    assert not {b"%2f", b"&sol;", b"\\/"} & beginnings(ord("/"))


def test_letters_and_digits_are_not_escaped_by_a_backslash_alone() -> None:
    assert [chr(char) for char in CHARS if b"\\" + bytes([char]) in escapes(char)] == list(
        "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    )


def test_html_entities_are_known_with_and_without_semicolon() -> None:
    names = {escape for char in b"/+&_" for escape in escapes(char) if escape[:1] == b"&" and escape[:2] != b"&#"}
    expected = {b"&sol", b"&plus", b"&amp", b"&lowbar", b"&underbar"}
    assert names == expected | {name + b";" for name in expected}


@each(
    ("char", "window", "chars", "ends", "rest"),
    [
        (b"/", b"%252f", b"%2f", [3, 4, 5], b""),
        (b"/", b"&amp;#x2f;", b"&#x2f;", [5, 6, 7, 8, 9, 10], b""),
        (b"/", b"\\\\u002f", b"\\u002f", [2, 3, 4, 5, 6, 7], b""),
        (b"&", b"\\u0026amp%3b", b"&amp;", [6, 7, 8, 9, 12], b""),
        (b"/", b"%25%2", b"%", [3], b"%2"),
        (b"/", b"%25%2x", b"%%2x", [3, 4, 5, 6], b""),
        (b"/", b"%252f%252f", b"%2f", [3, 4, 5], b"%252f"),
        (b"/", b"\\\\u00ff", b"\\u00f", [2, 3, 4, 5, 6], b"f"),
        (b"/", b"%2", b"", [], b"%2"),
        (b"/", b"x%25", b"", [], b"x%25"),
        (b"/", b"", b"", [], b""),
    ],
)
def test_undoes_one_level_of_escaping_as_far_as_it_may_be_the_character(
    char: bytes, window: bytes, chars: bytes, ends: list[int], rest: bytes
) -> None:
    found, places, left = unescaped(char[0], window)
    assert (b"".join(found), places, left) == (chars, ends, rest)


# How encoders escape the signs of an escape sequence.
AGAIN: list[Callable[[str], str]] = [
    lambda sign: f"%{ord(sign):02x}",
    lambda sign: f"&#{ord(sign)};",
    lambda sign: f"&#x{ord(sign):x};",
    lambda sign: f"\\u{ord(sign):04x}",
    lambda sign: f"\\{sign}" if sign in "\"'\\" else sign,
]


def twice(char: int, again: Callable[[str], str]) -> set[bytes]:
    """Return the escape sequences of a character with their signs escaped."""
    found = set()
    for once in escapes(char):
        text = "".join(again(sign) if ord(sign) in WITHIN else sign for sign in once.decode("ascii")).encode()
        if text != once and not once.startswith((b"=\n", b"=\r")):  # a line of quoted-printable escapes nothing
            found.add(text)
    return found


@each("again", AGAIN)
def test_finds_a_sign_that_is_escaped_twice(again: Callable[[str], str]) -> None:
    signs = [char for char in CHARS if is_sign(char)]
    assert sorted(map(chr, signs)) == sorted(punctuation + " ")
    for char in signs:
        for text in twice(char, again):
            assert len(text) in set(escaped_twice(char, text)), (char, text)
            assert len(text) <= LONGEST_TWICE


@each("again", AGAIN)
@each("char", [*b"/&"])
def test_every_prefix_of_a_double_escape_may_begin_one(char: int, again: Callable[[str], str]) -> None:
    for text in twice(char, again):
        for size in range(1, len(text)):
            assert begins_twice(char, text[:size]), (text, size)


@each("window", [b"x", b"/", b"%252f", b"%253", b"%25x", b"%25%2x", b"%26%26", b"%25%26", b"%7"])
def test_other_text_begins_no_double_escape(window: bytes) -> None:
    assert not begins_twice(ord("/"), window)
