import codecs

import pytest

from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.problems import UserError
from table_tests import each


@pytest.mark.parametrize(
    "content", ["domains: [bücher.example]".encode(), codecs.BOM_UTF8 + "domains: [bücher.example]".encode()]
)
def test_utf8_is_read_with_and_without_a_byte_order_mark(content: bytes) -> None:
    assert decode_policy(content, file="policy.yaml") == "domains: [bücher.example]"


@each(
    ("content", "message"),
    [
        ("a: é\nb: é ".encode() + b"\xe9", "policy.yaml:2:6: byte 0xe9 is not UTF-8; save the file as UTF-8"),
        (b"\xff", "policy.yaml:1:1: byte 0xff is not UTF-8; save the file as UTF-8"),
        (b"a\0b", r"policy.yaml:1:2: a character that is not allowed in a text file: '\x00'; remove it"),
        (
            "a: é\n  \x1b[31m".encode(),
            r"policy.yaml:2:3: a character that is not allowed in a text file: '\x1b'; remove it",
        ),
        (
            "# \u202eb".encode(),
            r"policy.yaml:1:3: a character that is not allowed in a text file: '\u202e'; remove it",
        ),
        ("a\ufeff".encode(), r"policy.yaml:1:2: a character that is not allowed in a text file: '\ufeff'; remove it"),
        ("domains: []".encode("utf-16"), "policy.yaml: UTF-16, not UTF-8; save the file as UTF-8"),
        (codecs.BOM_UTF16_BE + b"\0d", "policy.yaml: UTF-16, not UTF-8; save the file as UTF-8"),
    ],
)
def test_reports_invalid_bytes_and_characters_with_their_place(content: bytes, message: str) -> None:
    with pytest.raises(UserError) as error:
        decode_policy(content, file="policy.yaml")
    assert str(error.value) == message


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029", "\r"])
def test_a_line_end_that_hides_an_entry_behind_a_comment_is_refused(end: str) -> None:
    text = f"domains:\n  - a.test\n  # why{end}  - b.test\r\n"
    with pytest.raises(UserError, match=r"policy.yaml:3:8: a character that is not allowed in a text file"):
        decode_policy(text.encode(), file="policy.yaml")
