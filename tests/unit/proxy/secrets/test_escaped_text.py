"""What a search costs. What it finds is in the tests of redaction and in its laws."""

import pytest

from agent_sandbox.proxy.secrets.escaped_text import EscapedText, TextFinder
from agent_sandbox.proxy.secrets.escapes import LONGEST
from agent_sandbox.proxy.secrets.redaction import Redactor
from counting_budget import CountingBudget
from table_tests import each

TOKEN = EscapedText(b"tok_/x+16C7e42F292c6912E7710c838347Ae178B4a")
CHUNK = 8_192


def steps(text: EscapedText, data: bytes) -> int:
    """Return how many steps it takes to find a text in data."""
    budget = CountingBudget()
    redactor = Redactor([text], budget)
    for at in range(0, len(data), CHUNK):
        list(redactor.feed(data[at : at + CHUNK]))
    return budget.spent


@each(
    "line",
    [
        b"plain words, and the token of another: tok-99\n",
        b'{"url": "https:\\/\\/api.example.com\\/x", "text": "one\\ntwo \\"three\\" \\u00e9"}',
        b'<a href="/?a=b%20c%2Fd&amp;e=f">&lt;b&gt; &quot;x&#39;&#x2F;</a>\n',
    ],
)
def test_ordinary_bodies_are_compared_only_at_the_ends_of_chunks(line: bytes) -> None:
    data = line * 1_000
    assert steps(TOKEN, data) <= len(data) / CHUNK * 50


@pytest.mark.slow
def test_holds_back_at_most_the_longest_spelling_of_the_text() -> None:
    redactor = Redactor([EscapedText(b"a__" * 30)])
    data = b"&#x00000061;&UnderBar;&UnderBar;" * 100
    gone = sum(len(b"".join(redactor.feed(data[at : at + 7]))) for at in range(0, len(data), 7))
    assert 0 <= len(data) - gone <= 90 * LONGEST


@each("written", [b'=o"x', b'%3Do"x', b'=o""x', b"=o%2522x", b"&equals;o&quot;x", b'=o\\"x', b'=&#111"x'])
def test_finds_a_text_in_every_spelling_and_across_two_pieces(written: bytes) -> None:
    text, data = EscapedText(b'=o"x'), b"." * 200 + written
    assert any(literal in data for literal in text.literals())
    assert TextFinder(text).read(data + b"." * 200, 0) == [slice(200, len(data))]
    for cut in range(201, len(data)):
        finder = TextFinder(text)
        finder.begin(data[:cut])
        held = finder.held(data[:cut])
        finder.forget(cut - held)
        assert finder.read(data[cut - held :], held) == [slice(held - (cut - 200), held + len(data) - cut)]


def test_equal_texts_compare_equal() -> None:
    assert EscapedText(b"secret") == EscapedText(b"secret") != EscapedText(b"secret2")
    assert len({EscapedText(b"secret"), EscapedText(b"secret")}) == 1
