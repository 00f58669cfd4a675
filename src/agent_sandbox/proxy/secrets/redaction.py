"""Overwrite a secret in what a server answers: the client must not read there what the proxy put into its request.

A secret is found in base64, in hex, and with each of its characters written in any way that `escapes` lists. Where they
are escaped in other ways, the long runs of letters and digits between them are found.
Not found is what was compressed, encrypted, broken into lines, or encoded twice.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Protocol

from agent_sandbox.proxy.secrets.escaped_text import EscapedText, TextFinder

JSON_IN_HTML = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "<>&"})
# Letters and digits stay as they are, however the other characters are escaped; fewer are found by chance.
RUN = re.compile(r"[A-Za-z0-9]{16,}", re.ASCII)
URLSAFE = bytes.maketrans(b"+/", b"-_")

# What a secret may come back as: exactly these bytes, or a text with any of its characters escaped.
Form = bytes | EscapedText
Echoes = tuple[Form, ...]


def secret_encodings(value: str, sent: Iterable[str]) -> Echoes:
    """Return how a secret may come back that was sent in these header values.

    >>> forms("secret", ["Bearer secret"])[1:]
    (b'736563726574', b'c2VjcmV0', b'NlY3Jld', b'zZWNyZX')
    """
    sent = tuple(sent)
    tokens = [one.removeprefix("Basic ").rstrip("=") for one in sent if one.startswith("Basic ")]
    texts = dict.fromkeys((value, *tokens))
    # A token that is base64 already does not show the value in what is made of it once more.
    packed = (value, *_in_json(value), *(text for text in (*sent, *tokens) if value not in text))
    as_bytes = {part for text in packed for part in _in_base64(text.encode())}
    as_bytes |= {value.encode().hex().encode(), value.encode().hex().upper().encode()}
    as_bytes |= {run.encode() for text in texts for run in RUN.findall(text) if run != text}
    escaped = (EscapedText(text.encode("ascii")) for text in texts)
    return (*escaped, *sorted(as_bytes, key=lambda form: (-len(form), form)))


def _in_json(text: str) -> Iterator[str]:
    written = json.dumps(text)[1:-1]
    yield from (written, written.replace("/", r"\/"), written.translate(JSON_IN_HTML))


def _in_base64(raw: bytes) -> Iterator[bytes]:
    """Yield what base64 of every text has that holds these bytes: three bytes are four signs, wherever they begin.

    The sign on either side has some bits of them, too, and some of what is beside them.
    """
    for before in range(3):
        written = base64.b64encode(bytes(before) + raw)[(8 * before + 5) // 6 : 8 * (before + len(raw)) // 6]
        yield from (written, written.translate(URLSAFE))


class Finder(Protocol):
    """Finds one form in one stream. What it is given begins with the bytes that it holds back."""

    def read(self, data: bytes, known: int) -> list[slice]:
        """Return where the form is that ends behind the bytes already known."""

    def held(self, data: bytes) -> int:
        """Return how many bytes at the end may be the beginning of the form."""

    def forget(self, size: int) -> None:
        """Count positions from a later byte on: those before it went on."""


class BytesFinder:
    """Finds bytes as they are, also where they overlap."""

    def __init__(self, wanted: bytes) -> None:
        self._wanted = wanted

    def read(self, data: bytes, known: int) -> list[slice]:
        """Return where the bytes are that end behind those already known."""
        found, size = [], len(self._wanted)
        at = data.find(self._wanted, max(known - size + 1, 0))
        while at >= 0:
            found.append(slice(at, at + size))
            at = data.find(self._wanted, at + 1)
        return found

    def held(self, data: bytes) -> int:
        """Return how many bytes at the end are the beginning of those wanted, and not all of them."""
        # Only where they have the last byte can they break off: that is looked for, not each length tried.
        size = self._wanted.rfind(data[-1], 0, min(len(self._wanted) - 1, len(data))) + 1
        while size and not data.endswith(self._wanted[:size]):
            size = self._wanted.rfind(data[-1], 0, size - 1) + 1
        return size

    def forget(self, size: int) -> None:
        """Count positions from a later byte on: none is kept."""


def _finder(form: Form) -> Finder:
    return TextFinder(form) if isinstance(form, EscapedText) else BytesFinder(form)


def redact(secret_encodings: Iterable[Form], data: bytes) -> bytes:
    """Return a whole value with `*` for each byte of a form.

    >>> redact([b"secret", b"retina"], b"a secretina")
    b'a *********'
    """
    return _overwritten(data, [place for form in secret_encodings for place in _finder(form).read(data, 0)])


class Redactor:
    """The same for a stream, however it is cut. All goes on at once but a tail that may be the beginning of a form."""

    def __init__(self, secret_encodings: Iterable[Form]) -> None:
        self._finders = tuple(map(_finder, dict.fromkeys(secret_encodings)))  # of several secrets, maybe
        self._held = b""  # as it came: a form may go on in what was found already
        self._shown = b""  # the same, with what was found in it overwritten
        self.redacted = 0

    def feed(self, data: bytes) -> bytes:
        """Return what may go on now."""
        if not data:
            return b""
        came = self._held + data
        found = [place for finder in self._finders for place in finder.read(came, len(self._held))]
        self.redacted += len(found)
        shown = _overwritten(self._shown + data, found)
        ready = len(came) - max((finder.held(came) for finder in self._finders), default=0)
        for finder in self._finders:
            finder.forget(ready)
        self._held, self._shown = came[ready:], shown[ready:]
        return shown[:ready]

    def end(self) -> bytes:
        """Return what was held: no more comes that could make it a form."""
        shown, self._held, self._shown = self._shown, b"", b""
        return shown


def _overwritten(data: bytes, places: list[slice]) -> bytes:
    if not places:
        return data
    shown = bytearray(data)
    for place in places:
        shown[place] = b"*" * (place.stop - place.start)
    return bytes(shown)
