"""The laws of overwriting a secret, on few letters: forms begin, end and lie in one another everywhere."""

import base64
import json
from html import escape
from itertools import pairwise
from urllib.parse import quote, quote_plus

from hypothesis import example, given
from hypothesis import strategies as st

from agent_sandbox.policy.match.credential_kind import KINDS, CredentialKind
from agent_sandbox.proxy.secrets.escaped_text import FIRST, EscapedText
from agent_sandbox.proxy.secrets.escapes import LONGEST, escapes
from agent_sandbox.proxy.secrets.redaction import Form, Redactor, redact, secret_encodings

Pieces = list[bytes]


def letters(sizes: tuple[int, int]) -> st.SearchStrategy[bytes]:
    return st.text("ab", min_size=sizes[0], max_size=sizes[1]).map(str.encode)


# What one character may be taken for, and what may follow an escape sequence: `%25`, `&amp;`, `\\`, `""`, `&#43;`.
TRICKY = b'a%\\&";+ 25'
SOME_ESCAPES = {char: sorted(escapes(char), key=lambda one: (len(one), one)) for char in TRICKY}
texts = st.lists(st.sampled_from(TRICKY), min_size=1, max_size=7).map(lambda chars: EscapedText(bytes(chars)))
few = st.frozensets(letters((2, 6)), max_size=3)
pieces = st.lists(letters((0, 6)), max_size=6)
values = st.text('aZ7/+="<& ', min_size=8, max_size=12)
around = st.text('a/"é', max_size=4)
kinds = st.sampled_from(list(KINDS.values()))


@st.composite
def echoes(draw: st.DrawFn) -> tuple[frozenset[Form], Pieces]:
    """Return a text, with other forms beside it, and pieces of it escaped in many ways, with noise between them."""
    text = draw(texts)
    stream = b""
    for _ in range(draw(st.integers(1, 3))):
        begin, end = sorted(draw(st.tuples(*[st.integers(0, len(text.text))] * 2)))
        for char in text.text[begin:end] if draw(st.booleans()) else text.text:
            way = draw(st.integers(0, 2 * len(SOME_ESCAPES[char])))
            stream += SOME_ESCAPES[char][way] if way < len(SOME_ESCAPES[char]) else bytes([char])
        stream += draw(st.sampled_from([b"", b"", bytes(text.text[:1]), b"%", b"&#", b"\\u00", b"x"]))
    stream = stream.upper() if draw(st.booleans()) and text.text.upper() == text.text else stream
    stream += draw(st.sampled_from([b"", b"." * FIRST * LONGEST]))  # near the end, a search is another
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    cut = [stream[begin:end] for begin, end in pairwise([0, *cuts, len(stream)])]
    beside: list[tuple[Form, ...]] = [(), (b"5a",), (EscapedText(b"5a"),)]
    return frozenset({text, *draw(st.sampled_from(beside))}), cut


def read(form: Form, data: bytes) -> tuple[set[tuple[int, int]], int]:
    """Return where a form is, and how long its beginning is that ends here: read from each byte on, one by one."""
    found, begun = set(), 0
    for start in range(len(data)):
        ends = {start}
        for char in form.text if isinstance(form, EscapedText) else form:
            ways = escapes(char) if isinstance(form, EscapedText) else frozenset[bytes]()
            rests = [data[end:].lower() for end in ends]
            if b"" in rests or any(way.startswith(rest) and way != rest for way in ways for rest in rests):
                begun = max(begun, len(data) - start)
            ends = {
                end + size
                for end in ends
                for size in range(1, len(data) - end + 1)
                if data[end : end + size] == bytes([char]) or data[end : end + size].lower() in ways
            }
        found |= {(start, end) for end in ends}
    return found, begun


streams = st.one_of(st.tuples(few, pieces), echoes())


@given(streams)
@example((frozenset({b"aab", b"ba"}), [b"aab", b"a"]))
@example((frozenset({b"ab", b"aabb"}), [b"aab", b"b"]))
def test_how_a_stream_is_cut_never_matters(stream: tuple[frozenset[Form], Pieces]) -> None:
    of, cut = stream
    redactor, whole = Redactor(of), Redactor(of)
    shown = b"".join([*map(redactor.feed, cut), redactor.end()])
    data = b"".join(cut)
    assert shown == redact(of, data) == whole.feed(data) + whole.end()
    assert redactor.redacted == whole.redacted


@given(streams)
def test_each_byte_of_a_form_is_overwritten_and_no_other(stream: tuple[frozenset[Form], Pieces]) -> None:
    of, cut = stream
    data = b"".join(cut)
    places = set().union(*(read(form, data)[0] for form in of))
    stars = {at for start, end in places for at in range(start, end)}
    assert redact(of, data) == bytes(ord("*") if at in stars else sign for at, sign in enumerate(data))


@given(streams)
def test_redactor_holds_back_only_a_possible_start_of_a_secret(stream: tuple[frozenset[Form], Pieces]) -> None:
    of, cut = stream
    redactor, came, gone = Redactor(of), b"", 0
    for piece in cut:
        came += piece
        gone += len(redactor.feed(piece))
        assert len(came) - gone == max((read(form, came)[1] for form in of), default=0)


@given(values, kinds, around, around)
def test_a_secret_is_found_in_what_servers_make_of_a_text(
    value: str, kind: CredentialKind, before: str, after: str
) -> None:
    found = secret_encodings(value, kind, "bot")
    text = before + value + after
    for encode in (json.dumps, quote, quote_plus, escape, repr):
        assert b"*" * len(value) in redact(found, encode(text).encode())
    for written in (json.dumps(text), json.dumps(text, ensure_ascii=False)):
        for pack in (base64.b64encode, base64.urlsafe_b64encode):
            assert b"*" * len(value) in redact(found, pack(written.encode()))


@given(values, kinds, around, around)
def test_what_was_sent_is_found_when_it_comes_back_as_it_is(
    value: str, kind: CredentialKind, before: str, after: str
) -> None:
    sent = kind.write(value, "bot").encode()
    shown = redact(secret_encodings(value, kind, "bot"), before.encode() + sent + after.encode())
    assert kind.read(sent.decode()).strip() == value.strip()
    for text in (value, *kind.encoded(value, "bot")):
        assert text.encode() not in shown


@given(values, kinds)
def test_no_form_is_listed_twice_or_short(value: str, kind: CredentialKind) -> None:
    found = secret_encodings(value, kind, "bot")
    assert len(set(found)) == len(found)
    assert min(len(form.text if isinstance(form, EscapedText) else form) for form in found) >= 8
