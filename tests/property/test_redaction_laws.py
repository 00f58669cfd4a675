"""The laws of overwriting a secret: of two letters, so that forms begin, end and lie in one another everywhere."""

import base64
import json

from hypothesis import example, given
from hypothesis import strategies as st

from agent_sandbox.proxy.redaction import SHORTEST, Redactor, forms, redact

Pieces = list[bytes]


def letters(sizes: tuple[int, int]) -> st.SearchStrategy[bytes]:
    return st.text("ab", min_size=sizes[0], max_size=sizes[1]).map(str.encode)


few = st.frozensets(letters((2, 6)), max_size=3)
pieces = st.lists(letters((0, 6)), max_size=6)
values = st.text('aZ7/+="<é ', min_size=SHORTEST, max_size=12)
around = st.text('a/"é', max_size=4)


def begun(of: frozenset[bytes], data: bytes) -> int:
    """Return the length of the longest tail that is the beginning of a form, and not all of it."""
    begins = {form[:size] for form in of for size in range(len(form))}
    return max((size for size in range(len(data) + 1) if data[len(data) - size :] in begins), default=0)


@given(few, pieces)
@example(frozenset({b"aab", b"ba"}), [b"aab", b"a"])
@example(frozenset({b"ab", b"aabb"}), [b"aab", b"b"])
def test_how_a_stream_is_cut_never_matters(of: frozenset[bytes], cut: Pieces) -> None:
    redactor, whole = Redactor(of), Redactor(of)
    shown = b"".join([*map(redactor.feed, cut), redactor.end()])
    data = b"".join(cut)
    assert shown == redact(of, data) == whole.feed(data) + whole.end()
    assert redactor.redacted == whole.redacted


@given(few, pieces)
def test_each_byte_of_a_form_is_overwritten_and_no_other(of: frozenset[bytes], cut: Pieces) -> None:
    data = b"".join(cut)
    shown = redact(of, data)
    places = [(at, at + len(form)) for form in of for at in range(len(data)) if data.startswith(form, at)]
    stars = {at for start, end in places for at in range(start, end)}
    assert shown == bytes(ord("*") if at in stars else sign for at, sign in enumerate(data))
    assert not [form for form in of if form in shown]


@given(few, pieces)
def test_only_the_beginning_of_a_form_is_held(of: frozenset[bytes], cut: Pieces) -> None:
    redactor, came, gone = Redactor(of), b"", 0
    for piece in cut:
        came += piece
        gone += len(redactor.feed(piece))
        assert len(came) - gone == begun(of, came)


@given(values, around, around)
def test_in_json_and_in_base64_of_it_a_secret_is_found(value: str, before: str, after: str) -> None:
    found = forms(value, [f"Bearer {value}"])
    for text in (json.dumps(before + value + after), json.dumps(before + value + after, ensure_ascii=False)):
        assert b"*" * SHORTEST in redact(found, text.encode())
        assert b"*" * SHORTEST in redact(found, base64.b64encode(text.encode()))
        assert b"*" * SHORTEST in redact(found, base64.urlsafe_b64encode(text.encode()))


@given(values)
def test_no_form_is_short_and_the_longest_comes_first(value: str) -> None:
    found = forms(value, [f"Bearer {value}"])
    assert len(set(found)) == len(found)
    assert [len(form) for form in found] == sorted((len(form) for form in found), reverse=True)
    assert min(map(len, found)) >= SHORTEST
