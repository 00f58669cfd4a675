"""Redact echoes: overwrite injected secrets in responses, so that the client cannot read them.

Finds a secret in base64, also when it is broken into lines or encoded twice; in hex; and with any of its characters
escaped in a way that `escapes` lists. If other escapes are used, it finds the long runs of letters and digits between
them.
Does not find a secret that is encrypted, split up, or encoded in three layers.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from html import escape
from itertools import chain
from typing import Protocol, assert_never
from urllib.parse import quote

from agent_sandbox.policy.match.credential_kind import CredentialKind
from agent_sandbox.proxy.secrets.encoded_text import (
    LINE_ENDS,
    PART,
    ExactFinder,
    FoldedFinder,
    FoldedText,
    HexFinder,
    HexText,
)
from agent_sandbox.proxy.secrets.escaped_text import PLAIN, EscapedText, TextFinder
from agent_sandbox.proxy.secrets.escapes import LEADS, LONGEST
from agent_sandbox.proxy.secrets.literals import LiteralSet

JSON_IN_HTML = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "<>&"})
# No escaping changes letters and digits. Shorter runs would match by chance.
QUOTED = re.compile("%[0-9A-F]{2}")
RUN = re.compile(r"[A-Za-z0-9]{16,}", re.ASCII)
URLSAFE = bytes.maketrans(b"+/", b"-_")

# Bytes of a form that are searched for first; a match without any of them begins within the last `TAIL` bytes.
PREFIX = 16
# A longer piece of data with a literal is cut up: the search is slow, and most of it has none.
PIECE = 1 << 14
TAIL = max(PREFIX, PLAIN + LONGEST, 2 * PART + len(LINE_ENDS[-1]))

# One form of an echo: exactly these bytes, or a text that is written in one of several ways.
Form = bytes | EscapedText | FoldedText | HexText
Echoes = tuple[Form, ...]


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
    return (
        *(EscapedText(text.encode("ascii")) for text in texts),
        HexText(value.encode().hex().encode()),
        *(FoldedText(text) for text in _sorted(base64s)),
        *_sorted(twice - base64s | runs),
    )


def _sorted(forms: set[bytes]) -> list[bytes]:
    return sorted(forms, key=lambda form: (-len(form), form))


def _escaped(text: str) -> Iterator[str]:
    """Yield a text as itself, and as URLs, HTML and JSON hold it."""
    written = json.dumps(text)[1:-1]
    quoted = quote(text, safe="")
    yield from (text, written, written.replace("/", r"\/"), written.translate(JSON_IN_HTML))
    yield from (quoted, quote(text), QUOTED.sub(lambda found: found[0].lower(), quoted), escape(text))


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
        """Return the matches that end after the first `known` bytes."""

    def held(self, data: bytes) -> int:
        """Return how many bytes at the end may be the start of a match."""

    def forget(self, size: int) -> None:
        """Shift all positions, because the first `size` bytes were passed on."""

    def begin(self, tail: bytes, size: int, /) -> list[slice]:
        """Forget what was read; read the end of `size` bytes that contain no match."""

    @property
    def gave_up(self) -> bool:
        """Whether all data is now a match."""


@lru_cache(maxsize=256)
def _literals(forms: tuple[Form, ...]) -> LiteralSet:
    """Return literals of which each match of a form contains one, near its start."""
    found = ((form[:PREFIX],) if isinstance(form, bytes) else form.literals() for form in forms)
    return LiteralSet(chain.from_iterable(found), rare=LEADS)


def _finder(form: Form) -> Finder:
    match form:
        case EscapedText():
            return TextFinder(form)
        case FoldedText():
            return FoldedFinder(form)
        case HexText():
            return HexFinder(form)
        case bytes():
            return ExactFinder(form)
        case _:
            assert_never(form)


def redact(secret_encodings: Iterable[Form], data: bytes) -> bytes:
    """Return `data` with each byte of a match replaced by `*`.

    >>> redact([b"secret", b"retina"], b"a secretina")
    b'a *********'
    """
    forms = tuple(secret_encodings)
    if not forms or not _literals(forms).may_be_in(data):
        return data
    return _overwritten(data, [place for form in forms for place in _finder(form).read(data, 0)])


class Redactor:
    """Redacts a stream. It passes on everything at once, except a tail that may be the start of a match."""

    def __init__(self, secret_encodings: Iterable[Form]) -> None:
        forms = tuple(dict.fromkeys(secret_encodings))  # several secrets may share a form
        self._finders = tuple(map(_finder, forms))
        self._literals = _literals(forms)
        self._held = b""  # original bytes, because matches may overlap
        self._shown = b""  # the same bytes, redacted
        self.redacted = 0

    def feed(self, data: bytes) -> bytes:
        """Return the redacted bytes that can be passed on now."""
        if not data:
            return b""
        came = self._held + data
        is_suspect = self._literals.may_be_in(came) or any(finder.gave_up for finder in self._finders)
        if is_suspect and len(data) > PIECE:
            return b"".join(self.feed(data[at : at + PIECE]) for at in range(0, len(data), PIECE))
        if is_suspect:
            seen = came
            found = [place for finder in self._finders for place in finder.read(seen, len(self._held))]
        else:  # only a match that begins near the end may go on
            seen = came[-TAIL:]
            found = [place for finder in self._finders for place in finder.begin(seen, len(data))]
        self.redacted += len(found)
        before = len(came) - len(seen)
        shown = _overwritten(self._shown + data, [slice(one.start + before, one.stop + before) for one in found])
        held = max((finder.held(seen) for finder in self._finders), default=0)
        for finder in self._finders:
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
    shown = bytearray(data)
    for place in places:
        shown[place] = b"*" * (place.stop - place.start)
    return bytes(shown)
