"""Remove from a program's output what writes or reads the user's clipboard, and report what it wanted to copy.

Terminals differ in where a control string begins and ends. So a string is held until it is complete, and written again
in one form that all of them read alike: it begins with ESC, contains no control character, and ends with BEL or ST.
What is incomplete, ambiguous or too long is dropped. All other output is passed on as valid UTF-8: each invalid byte is
replaced, so that no terminal reads it as a control character.
"""

import base64
import binascii
import re
from collections.abc import Callable

# Of a control string, such as an image; a longer one is dropped.
LONGEST = 8 << 20
# Of what is copied.
LONGEST_COPY = 1 << 20
_CHARACTER = (
    rb"\xc2[\xa0-\xbf]|[\xc3-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
# Text and controls that neither begin nor end anything; C1 controls are not text, in neither of their two forms.
TEXT = re.compile(rb"(?:[\x00-\x06\x08-\x17\x19\x1c-\x7f]+|" + _CHARACTER + rb")*+")
# What passes outside of control strings: also BEL, what cancels, and ESC with what neither begins one nor is "%".
OUTSIDE = re.compile(rb"(?:[\x00-\x1a\x1c-\x7f]+|\x1b[ -$&-OQ-WYZ\[\\`-~]|" + _CHARACTER + rb")*+")
# The beginning of a character or an escape sequence whose rest may still come. ESC % selects another encoding.
BEGINNING = re.compile(
    rb"(?:\x1b%?|[\xc2-\xf4]|\xe0[\xa0-\xbf]|[\xe1-\xef][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]?|[\xf1-\xf4][\x80-\xbf]{1,2})\Z"
)
C1 = re.compile(rb"\xc2([\x80-\x9f])")
ESC, BEL, CANCELS = 0x1B, 0x07, b"\x18\x1a"
# OSC, DCS, APC, PM and SOS, as they follow ESC; a C1 control is 0x40 higher.
STRINGS, ST = b"]P_^X", b"\\"
CONTROLS = bytes((*range(0x20), 0x7F))
REPLACEMENT = "\ufffd".encode()
# OSC strings: a number and perhaps a semicolon, or the old ones for titles.
OSC = re.compile(rb"(?:(?P<number>[0-9]{1,6})(?:;(?P<body>.*))?|[lLI].*)", re.DOTALL)
COPY, KITTY_CLIPBOARD = 52, 5522
# Our own, from images/agent/open-url: a URL in Base64. No terminal gets it.
OPEN = 8052
# iTerm2 takes its own commands under the number of another terminal, too.
ITERM = {50, 1337}
ITERM_COPIES = re.compile(rb"\s*(?:end)?copy", re.IGNORECASE)
# The DCS strings that pass: images (sixel), questions for settings and capabilities, held updates. Others define macros
# and keys that contain control strings, talk to a multiplexer, or have the terminal type something (kitty's echo).
DCS = re.compile(rb"[0-9;]*q|[$+]q|=[12]s")
# An image of kitty's protocol that the terminal reads from a file or shared memory, and not from the string: on the
# user's machine. Its answer tells whether the file exists, and "t" removes it.
APC_OF_FILE = re.compile(rb"\s*G[^;]*t\s*=\s*[^d,;\s]")


class ClipboardFilter:
    """Filter one stream of output. `on_copy` gets what the program wants to copy, `on_open` the URL to open."""

    def __init__(self, on_copy: Callable[[bytes], None], on_open: Callable[[bytes], None]) -> None:
        self._wanted = {COPY: on_copy, OPEN: on_open}
        self._rest = b""
        self._kind = b""  # of the string that has begun
        self._content = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Return what the terminal may get of the next part of the output."""
        data, out, at = self._rest + data, bytearray(), 0
        self._rest = b""
        while at < len(data):
            end = (TEXT if self._kind else OUTSIDE).match(data, at).end()  # type: ignore[union-attr] # it matches even nothing
            if end > at:
                self._text(data[at:end], out)
            elif BEGINNING.match(data, at):
                self._rest = data[at:]
                break
            else:
                end = self._control(data, at, out)
            at = end
        return bytes(out)

    def _text(self, text: bytes, out: bytearray) -> None:
        if not self._kind:
            out += text
        elif len(self._content) <= LONGEST:
            self._content += text.translate(None, CONTROLS)

    def _control(self, data: bytes, at: int, out: bytearray) -> int:
        """Act on a control or an invalid byte; return where it ends."""
        byte = data[at]
        if byte == ESC:
            return self._escape(data, at, out)
        if byte == BEL or byte in CANCELS:
            self._bell_or_cancel(data[at : at + 1], out)
            return at + 1
        if control := C1.match(data, at):
            self._two(bytes([control[1][0] - 0x40]), out)
            return control.end()
        self._text(REPLACEMENT, out)
        return at + 1

    def _bell_or_cancel(self, byte: bytes, out: bytearray) -> None:
        """Act on one within a string; outside, they are text."""
        if byte in CANCELS:
            self._kind = b""
        elif self._kind == b"]":
            self._end(byte, out)

    def _escape(self, data: bytes, at: int, out: bytearray) -> int:
        after = data[at + 1 : at + 2]
        if self._kind and after != ST:
            self._kind = b""  # some terminals end the string here, others do not
        if after == b"%":
            return at + 3
        if not b" " <= after <= b"~":
            return at + 1  # some terminals act on a control within a sequence, others end it
        self._two(after, out)
        return at + 2

    def _two(self, after: bytes, out: bytearray) -> None:
        """Act on ESC and the byte after it."""
        if self._kind and after == ST:
            self._end(b"\x1b\\", out)
        elif self._kind:
            pass  # a C1 control within a string
        elif after in STRINGS:
            self._kind, self._content = after, bytearray()
        else:
            out += b"\x1b" + after

    def _end(self, terminator: bytes, out: bytearray) -> None:
        kind, content = self._kind, bytes(self._content)
        self._kind, self._content = b"", bytearray()
        if len(content) <= LONGEST and self._may_pass(kind, content):
            out += b"\x1b" + kind + content + terminator

    def _may_pass(self, kind: bytes, content: bytes) -> bool:
        if kind != b"]":
            return DCS.match(content) is not None if kind == b"P" else kind != b"_" or not APC_OF_FILE.match(content)
        found = OSC.fullmatch(content)
        if found is None:
            return False
        number, body = int(found["number"] or 0), found["body"] or b""
        if number in self._wanted:
            self._hold(number, body)
        return number not in {COPY, KITTY_CLIPBOARD, OPEN} and not (number in ITERM and ITERM_COPIES.match(body))

    def _hold(self, number: int, body: bytes) -> None:
        """Report a copy or a URL; a question for the clipboard is not valid Base64."""
        encoded = body.partition(b";")[2] if number == COPY else body
        try:
            wanted = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            return
        if 0 < len(wanted) <= LONGEST_COPY:
            self._wanted[number](wanted)


def copy_sequence(copied: bytes) -> bytes:
    """Return the control string with which a terminal copies this to the clipboard."""
    return b"\x1b]52;c;" + base64.b64encode(copied) + b"\x1b\\"
