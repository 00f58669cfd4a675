from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.proxy.secrets.escaped_text import PLAIN, EscapedText
from agent_sandbox.proxy.secrets.escapes import escapes
from agent_sandbox.proxy.secrets.literals import MOST, LiteralSet

signs = st.binary(max_size=12)


@given(st.sets(st.text("ab%.\\\\", min_size=1, max_size=3).map(str.encode), max_size=5), st.binary(max_size=8) | signs)
def test_a_set_tells_whether_one_of_its_literals_is_in_the_data(found: set[bytes], data: bytes) -> None:
    assert LiteralSet(found, rare=b"%").may_be_in(data) == any(one in data for one in found)


def test_more_literals_than_one_search_takes_are_all_found() -> None:
    several = [b"%04d" % number for number in range(3 * MOST)]
    literals = LiteralSet(several)
    assert all(literals.may_be_in(b"\xff x" + one) for one in several)
    assert not literals.may_be_in(b"9999 0 ")


@given(st.text("aZ7/-_ \"'&%\\\\+", min_size=1, max_size=12), st.data())
def test_each_way_to_write_a_text_has_one_of_its_literals(text: str, data: st.DataObject) -> None:
    written = b""
    for char in text[:PLAIN].encode():
        ways = sorted({bytes([char]), *escapes(char)})
        way = data.draw(st.sampled_from(ways))
        written += way.upper() if way != bytes([char]) and data.draw(st.booleans()) else way
    assert any(one in written for one in EscapedText(text.encode()).literals())
