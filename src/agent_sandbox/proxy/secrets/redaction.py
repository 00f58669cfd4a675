"""Redact echoes: overwrite injected secrets in responses, so that the client cannot read them.

Finds a secret in base64, in hex, and with any of its characters escaped in a way that `escapes` lists. If other escapes
are used, it finds the long runs of letters and digits between them.
Does not find a secret that is compressed, encrypted, split over lines, or encoded twice.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Protocol

from agent_sandbox.policy.match.credential_kind import CredentialKind
from agent_sandbox.proxy.secrets.escaped_text import PLAIN, EscapedText, TextFinder, literals
from agent_sandbox.proxy.secrets.escapes import LEADS, LONGEST
from agent_sandbox.proxy.secrets.literals import LiteralSet

JSON_IN_HTML = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "<>&"})
# No escaping changes letters and digits. Shorter runs would match by chance.
RUN = re.compile(r"[A-Za-z0-9]{16,}", re.ASCII)
URLSAFE = bytes.maketrans(b"+/", b"-_")

# Bytes of a form that are searched for first; a match without any of them begins within the last `TAIL` bytes.
PREFIX = 16
TAIL = max(PREFIX, PLAIN + LONGEST)

# One form of an echo: exactly these bytes, or a text with any of its characters escaped.
Form = bytes | EscapedText
Echoes = tuple[Form, ...]


def secret_encodings(value: str, kind: CredentialKind, username: str = "") -> Echoes:
    """Return the forms in which a secret may be echoed that was sent as a credential of this kind.

    >>> from agent_sandbox.policy.match.credential_kind import KINDS
    >>> secret_encodings("secret", KINDS["bearer"])[1:]
    (b'736563726574', b'c2VjcmV0', b'NlY3Jld', b'zZWNyZX')
    """
    tokens = kind.encoded(value, username)
    texts = dict.fromkeys((value, *tokens))
    sent = kind.write(value, username)
    packed = (value, *_in_json(value), *(text for text in (sent, *tokens) if value not in text))
    as_bytes = {part for text in packed for part in _in_base64(text.encode())}
    as_bytes |= {value.encode().hex().encode(), value.encode().hex().upper().encode()}
    as_bytes |= {run.encode() for text in texts for run in RUN.findall(text) if run != text}
    escaped = (EscapedText(text.encode("ascii")) for text in texts)
    return (*escaped, *sorted(as_bytes, key=lambda form: (-len(form), form)))


def _in_json(text: str) -> Iterator[str]:
    written = json.dumps(text)[1:-1]
    yield from (written, written.replace("/", r"\/"), written.translate(JSON_IN_HTML))


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


class BytesFinder:
    """Finds exact bytes, including overlapping matches."""

    def __init__(self, wanted: bytes) -> None:
        self._wanted = wanted

    def read(self, data: bytes, known: int) -> list[slice]:
        """Return the matches that end after the first `known` bytes."""
        found, size = [], len(self._wanted)
        at = data.find(self._wanted, max(known - size + 1, 0))
        while at >= 0:
            found.append(slice(at, at + size))
            at = data.find(self._wanted, at + 1)
        return found

    def held(self, data: bytes) -> int:
        """Return the length of the longest proper prefix of the wanted bytes that `data` ends with."""
        # Only prefixes that end with the last byte of the data can match; search for those.
        size = self._wanted.rfind(data[-1], 0, min(len(self._wanted) - 1, len(data))) + 1
        while size and not data.endswith(self._wanted[:size]):
            size = self._wanted.rfind(data[-1], 0, size - 1) + 1
        return size

    def forget(self, size: int) -> None:
        """Do nothing: no positions are stored."""

    def begin(self, _tail: bytes, _size: int) -> list[slice]:
        """Return nothing: nothing is stored."""
        return []

    @property
    def gave_up(self) -> bool:
        """Return False: this search is cheap."""
        return False


@lru_cache(maxsize=256)
def _literals(forms: tuple[Form, ...]) -> LiteralSet:
    """Return literals of which each match of a form contains one, near its start."""
    found = (literals(form.text) if isinstance(form, EscapedText) else (form[:PREFIX],) for form in forms)
    return LiteralSet(chain.from_iterable(found), rare=LEADS)


def _finder(form: Form) -> Finder:
    return TextFinder(form) if isinstance(form, EscapedText) else BytesFinder(form)


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
        found = self._found(came, len(data))
        self.redacted += len(found)
        shown = _overwritten(self._shown + data, found)
        ready = len(came) - max((finder.held(came) for finder in self._finders), default=0)
        for finder in self._finders:
            finder.forget(ready)
        self._held, self._shown = came[ready:], shown[ready:]
        return shown[:ready]

    def _found(self, came: bytes, size: int) -> list[slice]:
        """Return the matches that end in the last `size` bytes."""
        if self._literals.may_be_in(came) or any(finder.gave_up for finder in self._finders):
            return [place for finder in self._finders for place in finder.read(came, len(came) - size)]
        # Only a match that begins near the end may go on.
        tail = came[-TAIL:]
        found = [place for finder in self._finders for place in finder.begin(tail, size)]
        for finder in self._finders:
            finder.forget(len(tail) - len(came))
        return [slice(place.start + len(came) - len(tail), len(came)) for place in found]

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
