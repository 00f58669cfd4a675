"""Redact echoes: overwrite injected secrets in responses, so that the client cannot read them.

Finds a secret in base64, also when it is broken into lines or encoded twice; in hex and in what else `_dumped` writes;
and with any of its characters escaped in a way that `escapes` lists. If other escapes are used, it finds the long runs
of letters and digits between them. `tests/lab/encoders.py` has an example of each encoder that is covered or not.
Does not find a secret that is encrypted, split up, or encoded in three layers.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from html import escape
from itertools import chain
from typing import Protocol, Self, assert_never
from urllib.parse import quote

from agent_sandbox.policy.match.credential_kind import CredentialKind
from agent_sandbox.proxy.secrets.encoded_text import (
    BEGUN_OR_ENDED,
    LINE_ENDS,
    PART,
    ExactFinder,
    FoldedFinder,
    FoldedText,
    HexFinder,
    HexText,
)
from agent_sandbox.proxy.secrets.escaped_text import PLAIN, EscapedText, TextFinder
from agent_sandbox.proxy.secrets.escapes import LONGEST
from agent_sandbox.proxy.secrets.search import (
    Beginnings,
    LiteralSet,
    SearchBudget,
    TooCostlyError,
    begun,
    char,
    exactly,
)

JSON_IN_HTML = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "<>&"})
# No escaping changes letters and digits. Shorter runs would match by chance.
QUOTED = re.compile("%[0-9A-F]{2}")
RUN = re.compile(r"[A-Za-z0-9]{16,}", re.ASCII)
URLSAFE = bytes.maketrans(b"+/", b"-_")

# Bytes of a form that are searched for first; a match without any of them begins within the last `TAIL` bytes.
PREFIX = 16
# A longer piece of data with a literal is cut up, and each part is a step: the search takes up to 5 us for each byte.
PIECE = 1 << 11
TAIL = max(PREFIX, PLAIN + LONGEST, 2 * PART + len(LINE_ENDS[-1]))

# One form of an echo: exactly these bytes, or a text that is written in one of several ways.
Form = bytes | EscapedText | FoldedText | HexText


class Echoes(tuple[Form, ...]):  # noqa: SLOT001 - the cached properties are kept in its dictionary
    """The forms of echoes of some secrets, each once, and a quick check that data has none of them."""

    def __new__(cls, forms: Iterable[Form] = ()) -> Self:
        """Remove duplicates: several secrets may share a form."""
        return super().__new__(cls, dict.fromkeys(forms))

    @cached_property
    def literals(self) -> LiteralSet:
        """Literals of which each match of a form contains one, near its start."""
        return LiteralSet(chain.from_iterable(map(_literals, self)))

    @cached_property
    def beginnings(self) -> Beginnings:
        """A search for data that ends within a match, but has none of the literals."""
        return Beginnings([_beginning(form) for form in self])


NO_ECHOES = Echoes()


def secret_encodings(value: str, kind: CredentialKind, username: str = "") -> Echoes:
    """Return the forms in which a secret may be echoed that was sent as a credential of this kind.

    >>> from agent_sandbox.policy.match.credential_kind import KINDS
    >>> [type(form).__name__ for form in secret_encodings("secret", KINDS["bearer"])[:2]]
    ['EscapedText', 'HexText']
    """
    tokens = kind.encoded(value, username)
    texts = tuple(dict.fromkeys((value, *tokens)))
    sent = kind.write(value, username)
    packed = (*_escaped(value), *(text for text in (sent, *tokens) if value not in text))
    base64s = {part for text in packed for part in _in_base64(text.encode())}
    once = {part for text in texts for part in (base64.b64encode(text.encode()), *_in_base64(text.encode()))}
    twice = {part for text in once for part in _in_base64(text)}
    runs = {run.encode() for text in texts for run in RUN.findall(text) if run != text}
    return Echoes(
        (
            *(EscapedText(text.encode("ascii")) for text in texts),
            *(HexText(text.encode().hex().encode()) for text in texts),
            *(FoldedText(text) for text in _sorted(base64s)),
            *_sorted(twice - base64s | runs),
            *chain.from_iterable(_dumped(text.encode()) for text in texts),
        )
    )


def _sorted(forms: set[bytes]) -> list[bytes]:
    return sorted(forms, key=lambda form: (-len(form), form))


def _escaped(text: str) -> Iterator[str]:
    """Yield a text as itself, and as URLs, HTML and JSON hold it."""
    written = json.dumps(text)[1:-1]
    quoted = quote(text, safe="")
    yield from (text, written, written.replace("/", r"\/"), written.translate(JSON_IN_HTML))
    yield from (quoted, quote(text), QUOTED.sub(lambda found: found[0].lower(), quoted), escape(text))


def _dumped(raw: bytes) -> Iterator[Form]:
    """Yield the bytes as programs dump them: in hex and as numbers with separators, in base32, in base64 of UTF-16."""
    yield from (HexText(raw.hex(sep).encode()) for sep in " :-")
    yield from (HexText(sep.join(f"{byte:02x}" for byte in raw).encode()) for sep in (", 0x", ",0x"))
    yield from (sep.join(map(str, raw)).encode() for sep in (",", ", ", " "))
    for before in range(5):
        written = base64.b32encode(bytes(before) + raw)[(8 * before + 4) // 5 : 8 * (before + len(raw)) // 5]
        yield from (written, written.lower())
    # The same bytes, whichever comes first: those of the other order begin one byte earlier.
    yield from (FoldedText(text) for text in _sorted({*_in_base64(raw.decode("ascii").encode("utf-16-le")[:-1])}))


def _in_base64(raw: bytes) -> Iterator[bytes]:
    """Yield the base64 characters that depend only on these bytes, for each of the three alignments in a larger text.

    The characters at either end, which also depend on neighbouring bytes, are left out.
    """
    for before in range(3):
        written = base64.b64encode(bytes(before) + raw)[(8 * before + 5) // 6 : 8 * (before + len(raw)) // 6]
        yield from (written, written.translate(URLSAFE))


class Finder(Protocol):
    """Finds one form in one stream. The data always starts with the bytes that were held back before."""

    def read(self, data: bytes, known: int) -> list[slice]:
        """Return the matches that end after the first `known` bytes. Raises TooCostlyError, as all methods do."""

    def held(self, data: bytes) -> int:
        """Return how many bytes at the end may be the start of a match."""

    def forget(self, size: int) -> None:
        """Shift all positions, because the first `size` bytes were passed on."""

    def begin(self, tail: bytes, /) -> None:
        """Forget what was read; read the end of data that contains no match."""


def _literals(form: Form) -> Iterable[bytes]:
    return (form[:PREFIX],) if isinstance(form, bytes) else form.literals()


def _beginning(form: Form) -> str:
    """Return a pattern for the end of data that ends within a match, but has no literal."""
    if isinstance(form, FoldedText):
        first, *others = map(char, b"".join(form.parts))
        line_end, begun_end = (f"(?:{'|'.join(map(exactly, sorted(ends)))})?" for ends in (LINE_ENDS, BEGUN_OR_ENDED))
        return begun((first, *(line_end + other for other in others))) + begun_end
    return "|".join(begun([*map(char, literal)]) for literal in _literals(form))


def _finder(form: Form, budget: SearchBudget) -> Finder:
    match form:
        case EscapedText():
            return TextFinder(form, budget)
        case FoldedText():
            return FoldedFinder(form, budget)
        case HexText():
            return HexFinder(form, budget)
        case bytes():
            return ExactFinder(form, budget)
        case _:
            assert_never(form)


def redact(echoes: Iterable[Form], data: bytes, budget: SearchBudget | None = None) -> bytes:
    """Return `data` with each byte of a match replaced by `*`, and all of it if the search is too costly.

    >>> redact([b"secret", b"retina"], b"a secretina")
    b'a *********'
    """
    forms = echoes if isinstance(echoes, Echoes) else Echoes(echoes)
    if not forms or not forms.literals.may_be_in(data):
        return data
    budget = budget or SearchBudget()
    try:
        return _overwritten(data, [place for form in forms for place in _finder(form, budget).read(data, 0)])
    except TooCostlyError:
        return b"*" * len(data)


class Redactor:
    """Redacts a stream. It passes on everything at once, except a tail that may be the start of a match.

    Once the search is too costly, all that follows is overwritten.
    """

    def __init__(self, echoes: Iterable[Form], budget: SearchBudget | None = None) -> None:
        self._echoes = echoes if isinstance(echoes, Echoes) else Echoes(echoes)
        self._budget = budget or SearchBudget()
        self._finders: dict[Form, Finder] = {}  # of the forms of which a match may have begun
        self._held = b""  # original bytes, because matches may overlap
        self._shown = b""  # the same bytes, redacted
        self._gave_up = False
        self.redacted = 0
        self.searched = 0  # forms that were looked for in the last piece

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the redacted bytes that can be passed on now, in steps of bounded work."""
        may_match = len(data) <= PIECE or self._echoes.literals.may_be_in(self._held + data)
        size = PIECE if may_match else len(data)
        for at in range(0, len(data) or 1, size):
            part = data[at : at + size]
            yield self._redacted(part, may_match=may_match) if part and self._echoes else part

    def _redacted(self, data: bytes, *, may_match: bool) -> bytes:
        """Return the redacted bytes that can be passed on now. `may_match`: whether the data may have a literal."""
        if self._gave_up:
            return b"*" * len(data)
        try:
            return self._search(data, may_match=may_match)
        except TooCostlyError:
            self._gave_up = True
            size, self._held, self._shown = len(self._shown) + len(data), b"", b""
            self.redacted += 1
            return b"*" * size

    def _search(self, data: bytes, *, may_match: bool) -> bytes:
        came = self._held + data
        has_literal = may_match and self._echoes.literals.may_be_in(came)
        self._budget.earn(len(data))
        seen = came if has_literal else came[-TAIL:]
        # Without a literal, only a match that begins near the end can go on.
        wanted = self._echoes if has_literal else [self._echoes[at] for at in self._echoes.beginnings.at_end(seen)]
        self._finders = {form: self._finders.get(form) or _finder(form, self._budget) for form in wanted}
        finders, self.searched = self._finders.values(), len(self._finders)
        found: list[slice] = []
        for finder in finders:
            if has_literal:
                found += finder.read(seen, len(self._held))
            else:
                finder.begin(seen)
        self.redacted += len(found)
        shown = _overwritten(self._shown + data, found)
        held = max((finder.held(seen) for finder in finders), default=0)
        for finder in finders:
            finder.forget(len(seen) - held)
        ready = len(came) - held
        self._held, self._shown = came[ready:], shown[ready:]
        return shown[:ready]

    def end(self) -> bytes:
        """Return the rest, which no further data can complete to a match."""
        shown, self._held, self._shown = self._shown, b"", b""
        return shown


def _overwritten(data: bytes, places: list[slice]) -> bytes:
    if not places:
        return data
    shown, done = bytearray(data), 0
    for place in sorted(places, key=lambda one: one.start):
        if place.stop > done:
            start = max(place.start, done)
            shown[start : place.stop] = b"*" * (place.stop - start)
            done = place.stop
    return bytes(shown)
