"""Choose colours: the styles of words, and whether a stream gets any.

Much of what is printed was written by others: by the agent, a repository, a program. So only parts that a command marks
are coloured, as in `styled(("deny", "deny"), f" {reason}")`; any other operation gives plain text, without a colour.
The word itself always says what its colour says. Rich would guess what to highlight.
"""

from collections.abc import Iterator, Mapping
from typing import TextIO

# Of the 16 colours of every terminal, those that are readable on a light and on a dark background. Where bold is
# brighter, red and magenta become easier to read, but green would be lost on white.
GREEN, RED, MAGENTA, BOLD = "32", "1;31", "1;35", "1"
STYLES: Mapping[str, str] = {
    "allow": GREEN,
    "deny": RED,
    "within": MAGENTA,
    "ok": GREEN,
    "warn": MAGENTA,
    "fail": RED,
    "error": RED,
    "title": BOLD,
    "command": BOLD,  # a command to copy: no line break goes into it
}
END = "\x1b[0m"
WHENS = ("auto", "always", "never")
# What `--color` sets, for this process.
VARIABLE = "AGENT_SANDBOX_COLOR"

type Part = str | tuple[str, str]


class Styled(str):
    """One line of text with the styles of its parts; a `fixed` one is never wrapped. As a string it is plain text."""

    __slots__ = ("fixed", "parts")
    parts: tuple[tuple[str, str], ...]
    fixed: bool


def styled(*parts: Part, fixed: bool = False) -> Styled:
    """Return a line from parts: `(text, style)` has a style, and a plain string has none.

    >>> line = styled(("deny", "deny"), "  GET https://a.test/")
    >>> line, line.parts
    ('deny  GET https://a.test/', (('deny', 'deny'), ('  GET https://a.test/', '')))
    """
    pairs = tuple((part, "") if isinstance(part, str) else part for part in parts)
    line = Styled("".join(text for text, _ in pairs))
    line.parts, line.fixed = pairs, fixed
    return line


def parts_of(line: str) -> tuple[tuple[str, str], ...]:
    """Return the parts of a line with their styles; a plain string is one part without a style."""
    return line.parts if isinstance(line, Styled) else ((line, ""),)


def painted(runs: Iterator[tuple[str, str]]) -> str:
    """Return printable text with the escape codes of its styles."""
    return "".join(_coded(text, text.rstrip(), style) for text, style in runs)


def _coded(text: str, word: str, style: str) -> str:
    return f"\x1b[{STYLES[style]}m{word}{END}{text[len(word) :]}" if style and word else text


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether text for this stream is coloured; the first setting that is given decides.

    The settings are `--color`, NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE, CLICOLOR, TERM, and whether it is a terminal.
    """
    when = environ.get(VARIABLE, "auto")
    if when in ("always", "never"):
        return when == "always"
    if environ.get("NO_COLOR") or environ.get("FORCE_COLOR") in ("0", "false"):
        return False
    if environ.get("FORCE_COLOR") or environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return environ.get("CLICOLOR") != "0" and environ.get("TERM") != "dumb" and stream.isatty()
