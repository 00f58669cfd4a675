from base64 import b64encode
from cProfile import Profile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.policy.match.credential_kind import KINDS
from agent_sandbox.proxy.secrets.escaped_text import PLAIN, EscapedText
from agent_sandbox.proxy.secrets.escapes import escapes
from agent_sandbox.proxy.secrets.redaction import Redactor, redact, secret_encodings
from agent_sandbox.proxy.secrets.search import (
    FIRST_BYTES,
    MOST,
    STEPS,
    STEPS_PER_BYTE,
    STEPS_PER_FIRST_BYTE,
    Beginnings,
    LiteralSet,
    SearchBudget,
    TooCostlyError,
    begun,
)
from table_tests import each

signs = st.binary(max_size=12)
TOKEN = "sk-proj-aB3dE5fG7hI9" * 3
PACKED = b64encode(TOKEN.encode())
ESCAPED = "".join(f"%{ord(char):02x}" for char in TOKEN).encode()
SIZE = 200_000
PIECE = 65_536


def calls(secret: str, data: bytes) -> int:
    """Return how many functions are called to search data, those in C included."""
    found = secret_encodings(secret, KINDS["bearer"])
    redact(found, data[:1_000])  # makes patterns and tables
    redactor = Redactor(found)
    with Profile() as profile:
        for at in range(0, len(data), PIECE):
            list(redactor.feed(data[at : at + PIECE]))
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
@each(
    ("secret", "unit"),
    [
        (TOKEN, TOKEN.encode()),
        (TOKEN, TOKEN[:-1].encode()),
        (TOKEN, b"%73"),
        (TOKEN, b"%73k"),
        (TOKEN, ESCAPED[:-1]),
        (TOKEN, b"s%25"),
        (TOKEN, b"sk&amp;#45;&amp;#x"),
        (TOKEN, b"\\\\u0073\\"),
        (TOKEN, TOKEN[:8].encode() + b"&#0000" * 1_000),
        (TOKEN, PACKED[:16] + b"\n"),
        (TOKEN, PACKED[:-9] + b"\n"),
        (TOKEN, PACKED[:20] + b"\\r\\n"),
        (TOKEN, b"".join(PACKED[at : at + 1] + b"\n" for at in range(len(PACKED)))),
        (TOKEN, TOKEN.encode().hex().encode()[:-1]),
        ("a" * 60, b"a"),
        ("a" * 60, b"&#97;"),
        ("a" * 9_000, b"a"),
        ("a" * 9_000, b"%61"),
        ("a" * 9_000, b"YWFh"),
        ("a" * 9_000, b"YWFh" * 15 + b"\n"),
        ("%25" * 20, b"%25"),
        ("'" * 10, b"'"),
    ],
)
def test_limits_the_calls_of_a_search_by_the_size_of_the_data(secret: str, unit: bytes) -> None:
    assert calls(secret, unit * (SIZE // len(unit))) <= 40 * (STEPS + STEPS_PER_BYTE * SIZE)


def test_the_budget_grows_with_the_length_of_the_stream() -> None:
    budget = SearchBudget()
    budget.earn(10)
    budget.earn(1_600)
    earned = STEPS_PER_FIRST_BYTE * (10 + FIRST_BYTES) + STEPS_PER_BYTE * 1_610
    budget.spend(STEPS + int(earned))
    with pytest.raises(TooCostlyError):
        budget.spend()


def test_several_texts_share_one_budget() -> None:
    budget, found = SearchBudget(), secret_encodings(TOKEN, KINDS["bearer"])
    for _ in range(1_000):
        redact(found, ESCAPED[:-1] + b"!", budget)
    assert redact(found, ESCAPED[:-1] + b"!", budget) == b"*" * len(ESCAPED[:-1] + b"!")
    assert redact(found, b"plain", budget) == b"plain"


@given(st.sets(st.text("ab%.\\\\", min_size=1, max_size=3).map(str.encode), max_size=5), st.binary(max_size=8) | signs)
def test_literal_set_agrees_with_a_search_for_each_literal(found: set[bytes], data: bytes) -> None:
    assert LiteralSet(found).may_be_in(data) == any(one in data for one in found)


def test_finds_each_of_more_literals_than_one_search_can_have() -> None:
    several = [b"%04d" % number for number in range(3 * MOST)]
    literals = LiteralSet(several)
    assert all(literals.may_be_in(b"\xff x" + one) for one in several)
    assert not literals.may_be_in(b"9999 0 ")


@pytest.mark.slow
@given(st.text("aZ7/-_ \"'&%\\\\+", min_size=1, max_size=12), st.data())
def test_every_spelling_of_a_text_contains_one_of_its_literals(text: str, data: st.DataObject) -> None:
    written = b""
    for char in text[:PLAIN].encode():
        ways = sorted({bytes([char]), *escapes(char)})
        way = data.draw(st.sampled_from(ways))
        written += way.upper() if way != bytes([char]) and data.draw(st.booleans()) else way
    assert any(one in written for one in EscapedText(text.encode()).literals())


def test_beginnings_names_the_patterns_that_may_have_begun() -> None:
    beginnings = Beginnings([begun("abc"), begun([r"\x5c", "x"]), "[0-9]+"])
    ends = [b"", b"x", b"xa", b"ab\xe9ab", b"abc", b"ab.", b"a\\", b"\\x", b"xa7"]
    assert [beginnings.at_end(data) for data in ends] == [[], [], [0], [0], [0], [], [1], [1], [2]]
