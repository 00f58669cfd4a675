"""The laws of redaction, on few letters, so that encodings overlap everywhere."""

import base64
import json
from collections.abc import Iterator
from html import escape
from itertools import chain, pairwise
from urllib.parse import quote, quote_plus

from hypothesis import example, given
from hypothesis import strategies as st

from agent_sandbox.policy.match.credential_kind import KINDS, CredentialKind
from agent_sandbox.proxy.secrets.encoded_text import LINE_ENDS, FoldedText, HexText
from agent_sandbox.proxy.secrets.escaped_text import FIRST, EscapedText
from agent_sandbox.proxy.secrets.escapes import (
    LONGEST,
    begins_twice,
    escaped_signs,
    escaped_twice,
    escapes,
    is_sign,
)
from agent_sandbox.proxy.secrets.redaction import Form, Redactor, redact, secret_encodings

Pieces = list[bytes]


def letters(sizes: tuple[int, int]) -> st.SearchStrategy[bytes]:
    return st.text("ab", min_size=sizes[0], max_size=sizes[1]).map(str.encode)


# Characters that are escaped, or that can follow an escape sequence: `%25`, `&amp;`, `\\`, `""`, `&#43;`.
TRICKY = b'a%\\&";+ 25'
SOME_ESCAPES = {char: sorted(escapes(char), key=lambda one: (len(one), one)) for char in TRICKY}
texts = st.lists(st.sampled_from(TRICKY), min_size=1, max_size=7).map(lambda chars: EscapedText(bytes(chars)))
few = st.frozensets(letters((2, 6)), max_size=3)
pieces = st.lists(letters((0, 6)), max_size=6)
values = st.text('aZ7/+="<& ', min_size=8, max_size=12)
around = st.text('a/"é', max_size=4)
# A secret that signs requests is not sent.
kinds = st.sampled_from([kind for kind in KINDS.values() if not kind.signs])


@st.composite
def echoes(draw: st.DrawFn) -> tuple[frozenset[Form], Pieces]:
    """Return a text with other encodings, and a stream of pieces of it, escaped in many ways, with noise."""
    text = draw(texts)
    stream = b""
    for _ in range(draw(st.integers(1, 3))):
        begin, end = sorted(draw(st.tuples(*[st.integers(0, len(text.text))] * 2)))
        for char in text.text[begin:end] if draw(st.booleans()) else text.text:
            way = draw(st.integers(0, 2 * len(SOME_ESCAPES[char])))
            written = SOME_ESCAPES[char][way] if way < len(SOME_ESCAPES[char]) else bytes([char])
            again = draw(st.sampled_from([b"", b"%", b"&", b"\\"])) if len(written) > 1 else b""
            signs = {sign: way for way, sign in escaped_signs().items() if again and way.startswith(again)}
            stream += b"".join(signs.get(bytes([sign]), bytes([sign])) for sign in written)
        stream += draw(st.sampled_from([b"", b"", bytes(text.text[:1]), b"%", b"&#", b"\\u00", b"x"]))
    stream = stream.upper() if draw(st.booleans()) and text.text.upper() == text.text else stream
    stream += draw(st.sampled_from([b"", b"." * FIRST * LONGEST]))  # the search differs near the end
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    cut = [stream[begin:end] for begin, end in pairwise([0, *cuts, len(stream)])]
    beside: list[tuple[Form, ...]] = [(), (b"5a",), (EscapedText(b"5a"),)]
    return frozenset({text, *draw(st.sampled_from(beside))}), cut


def read(form: Form, data: bytes) -> tuple[set[tuple[int, int]], int]:
    """Return where an encoding is, and the length of its start at the end of `data`, by trying every byte."""
    found, begun = set(), 0
    text = form if isinstance(form, bytes) else form.text
    for start in range(len(data)):
        ends = {start}
        for count, char in enumerate(text):
            if any(is_whole(form, data[start:end], count) and may_go_on(form, char, data[end:], count) for end in ends):
                begun = max(begun, len(data) - start)
            ends = {end + size for end in ends for size in sizes(form, char, data[end:], first=not count)}
        found |= {(start, end) for end in ends if is_whole(form, data[start:end], len(text))}
    return found, begun


def sizes(form: Form, char: int, data: bytes, *, first: bool) -> Iterator[int]:
    """Yield the possible lengths of the next character in the data."""
    low = data.lower()
    if isinstance(form, HexText):
        yield from (1,) if low[:1] == bytes([char]).lower() else ()
        return
    yield from (1,) if data[:1] == bytes([char]) else ()
    if isinstance(form, FoldedText) and not first:
        yield from (len(end) + 1 for end in LINE_ENDS if data.startswith(end + bytes([char])))
    if isinstance(form, EscapedText):
        yield from (len(way) for way in escapes(char) if low.startswith(way))
        yield from escaped_twice(char, low) if is_sign(char) else ()


def may_go_on(form: Form, char: int, rest: bytes, count: int) -> bool:
    """Return whether the data can end within the next character."""
    if isinstance(form, FoldedText) and count:
        return any(end.startswith(rest) for end in LINE_ENDS)
    if rest and isinstance(form, EscapedText):
        again = is_sign(char) and begins_twice(char, rest.lower())
        return again or any(way.startswith(rest.lower()) and way != rest.lower() for way in escapes(char))
    return not rest


def is_whole(form: Form, data: bytes, count: int) -> bool:
    """Return whether one of the first two parts, as far as read, is on one line."""
    if not isinstance(form, FoldedText) or count < len(form.parts[0]):
        return True
    first, second = form.parts
    return first in data or second[: count - len(first)] in data


folded = st.builds(
    lambda text, cut: (frozenset[Form]({FoldedText(text)}), cut),
    letters((4, 7)),
    st.lists(
        st.sampled_from([b"a", b"b", b"ab", b"ba", b"aab", b"abb", b"\n", b"\r", b"\\", b"n", b"\\n", b"r"]),
        max_size=12,
    ),
)
hexes = st.builds(
    lambda text, cut: (frozenset[Form]({HexText(text)}), cut),
    st.text("a5", min_size=2, max_size=6).map(str.encode),
    st.lists(st.text("aA5", max_size=5).map(str.encode), max_size=6),
)
streams = st.one_of(st.tuples(few, pieces), echoes(), folded, hexes)


@given(streams)
@example((frozenset({b"aab", b"ba"}), [b"aab", b"a"]))
@example((frozenset({b"ab", b"aabb"}), [b"aab", b"b"]))
def test_redacts_alike_however_the_stream_is_split(stream: tuple[frozenset[Form], Pieces]) -> None:
    of, cut = stream
    redactor, whole = Redactor(of), Redactor(of)
    shown = b"".join([*chain.from_iterable(map(redactor.feed, cut)), redactor.end()])
    data = b"".join(cut)
    assert shown == redact(of, data) == b"".join(whole.feed(data)) + whole.end()
    assert redactor.redacted == whole.redacted


@given(streams)
def test_overwrites_exactly_the_bytes_of_each_encoding(stream: tuple[frozenset[Form], Pieces]) -> None:
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
        gone += len(b"".join(redactor.feed(piece)))
        assert len(came) - gone == max((read(form, came)[1] for form in of), default=0)


@given(values, kinds, around, around)
def test_redacts_a_secret_in_encodings_that_servers_use(
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
def test_redacts_an_unchanged_echo_of_the_sent_credential(
    value: str, kind: CredentialKind, before: str, after: str
) -> None:
    sent = kind.write(value, "bot").encode()
    shown = redact(secret_encodings(value, kind, "bot"), before.encode() + sent + after.encode())
    assert kind.read(sent.decode()).strip() == value.strip()
    for text in (value, *kind.encoded(value, "bot")):
        assert text.encode() not in shown


@given(values, kinds)
def test_encodings_of_a_secret_are_unique_and_at_least_eight_bytes_long(value: str, kind: CredentialKind) -> None:
    found = secret_encodings(value, kind, "bot")
    assert len(set(found)) == len(found)
    assert min(len(form if isinstance(form, bytes) else form.text) for form in found) >= 8
