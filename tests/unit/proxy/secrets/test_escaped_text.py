"""What a search costs. What it finds is in the tests of redaction and in its laws."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from agent_sandbox.proxy.secrets.escaped_text import CREDIT, CREDIT_PER_BYTE, EscapedText, TextFinder
from agent_sandbox.proxy.secrets.escapes import LONGEST
from agent_sandbox.proxy.secrets.redaction import Redactor
from table_tests import each

if TYPE_CHECKING:
    import pytest

TOKEN = EscapedText(b"tok_/x+16C7e42F292c6912E7710c838347Ae178B4a")
CHUNK = 8_192


def comparisons(text: EscapedText, data: bytes, patch: pytest.MonkeyPatch) -> int:
    """Return how many comparisons Python makes to find a text in data."""
    count, compare = Counter[str](), TextFinder._following

    def counted(finder: TextFinder, *where: bytes | int) -> object:
        count["all"] += 1
        return compare(finder, *where)  # type: ignore[arg-type] # as it is called

    patch.setattr(TextFinder, "_following", counted)
    redactor = Redactor([text])
    for at in range(0, len(data), CHUNK):
        redactor.feed(data[at : at + CHUNK])
    return count["all"]


@each(
    "line",
    [
        b"plain words, and the token of another: tok-99\n",
        b'{"url": "https:\\/\\/api.example.com\\/x", "text": "one\\ntwo \\"three\\" \\u00e9"}',
        b'<a href="/?a=b%20c%2Fd&amp;e=f">&lt;b&gt; &quot;x&#39;&#x2F;</a>\n',
    ],
)
def test_ordinary_bodies_are_compared_nowhere_but_at_the_ends_of_chunks(
    line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = line * 1_000
    assert comparisons(TOKEN, data, monkeypatch) <= len(data) / CHUNK * 50


@each(
    ("text", "data"),
    [
        (b"a" * 9_000, b"a" * 10_000),
        (b"a" * 9_000, b"&#97;" * 2_000),
        (b"a" * 63 + b"b", b"&#97;" * 2_000),
        (b"%25" * 20, b"%25" * 3_000),
        (b"\\" * 64, b"\\" * 5_000),
        (b"&#38;" * 20, b"&#38;" * 2_000),
        (b"'" * 64, b"'" * 5_000),
        (TOKEN.text, TOKEN.text[:-1] * 300),
        (TOKEN.text, b"&#" + b"0" * 20_000),
    ],
)
def test_no_body_costs_more_comparisons_than_its_size_allows(
    text: bytes, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert comparisons(EscapedText(text), data, monkeypatch) <= CREDIT + CREDIT_PER_BYTE * len(data)


def test_what_would_cost_too_much_is_overwritten_from_there_on() -> None:
    redactor = Redactor([EscapedText(b"a" * 1_000 + b"b")])
    shown = [redactor.feed(data) for data in (b"a word ", b"&#97;" * 3_000, b"more", b"x")]
    assert (shown[0], shown[2:], redactor.end()) == (b"a word ", [b"****", b"*"], b"")
    assert set(shown[1]) == {ord("*")}


def test_no_more_is_held_than_the_longest_way_to_write_it() -> None:
    redactor = Redactor([EscapedText(b"a__" * 30)])
    data = b"&#x00000061;&UnderBar;&UnderBar;" * 100
    gone = sum(len(redactor.feed(data[at : at + 7])) for at in range(0, len(data), 7))
    assert 0 <= len(data) - gone <= 90 * LONGEST


def test_texts_that_are_the_same_are_equal() -> None:
    assert EscapedText(b"secret") == EscapedText(b"secret") != EscapedText(b"secret2")
    assert len({EscapedText(b"secret"), EscapedText(b"secret")}) == 1
