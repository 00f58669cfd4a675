"""Escape untrusted text for a terminal, so that it neither controls it nor imitates other text."""

import re

# Characters that need a check: all but printable ASCII and tabs.
UNUSUAL = re.compile(r"[^\t\x20-\x7e]")

# Python calls these printable, but they are invisible: two names could differ only in them.
UNSEEN = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)


def printable(text: str) -> str:
    r"""Return one line with control characters and invisible characters escaped.

    Escapes control characters, bidirectional marks (CVE-2021-42574), zero-width and tag characters, unusual spaces, and
    bytes that are not UTF-8.

    >>> print(printable("docs\u200b \x1b[2J"))
    docs\u200b \x1b[2J
    """
    if text.isprintable() and UNSEEN.isdisjoint(text):
        return text
    return UNUSUAL.sub(lambda match: _spelled(match[0]), text)


def _spelled(sign: str) -> str:
    if sign.isprintable() and sign not in UNSEEN:
        return sign
    code = ord(sign)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def printable_lines(text: str) -> str:
    """Return the text with each of its lines made printable."""
    return "\n".join(map(printable, text.split("\n")))
