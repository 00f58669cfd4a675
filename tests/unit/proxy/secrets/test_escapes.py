from __future__ import annotations

from string import printable

from agent_sandbox.proxy.secrets.escapes import LEADS, LONGEST, beginnings, escapes

CHARS = [ord(char) for char in printable if char == " " or char.isprintable()]


def test_each_escape_sequence_begins_with_a_lead_and_is_no_longer_than_the_longest() -> None:
    assert len(CHARS) == 95
    assert {escape[0] for char in CHARS for escape in escapes(char)} == set(LEADS)
    assert max(len(escape) for char in CHARS for escape in escapes(char)) == LONGEST


def test_what_begins_an_escape_sequence_is_each_part_of_it_but_all() -> None:
    assert {b"", b"%", b"%%", b"%u0", b"\\u{2", b"&#x2", b"&so"} <= beginnings(ord("/"))
    assert all(escape[:-1] in beginnings(ord("/")) for escape in escapes(ord("/")))
    assert not {b"%2f", b"&sol;", b"\\/"} & beginnings(ord("/"))


def test_letters_and_digits_are_not_escaped_by_a_backslash_alone() -> None:
    assert [chr(char) for char in CHARS if b"\\" + bytes([char]) in escapes(char)] == list(
        "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    )


def test_a_name_of_html_is_found_with_and_without_its_end() -> None:
    names = {escape for char in b"/+&_" for escape in escapes(char) if escape[:1] == b"&" and escape[:2] != b"&#"}
    expected = {b"&sol", b"&plus", b"&amp", b"&lowbar", b"&underbar"}
    assert names == expected | {name + b";" for name in expected}
