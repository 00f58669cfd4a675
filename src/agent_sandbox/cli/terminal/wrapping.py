"""Wrap text to a terminal's width, with a hanging indent: below the text of a column, or behind a label."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TextIO
from unicodedata import combining, east_asian_width

LABEL = re.compile(r" *(?:error|warning|note|hint|careful|because): (?=\S)")
COLUMN = re.compile(r"\S {2,}(?=\S)")
WORD = re.compile(r"\s*\S+")
LEAST = 4  # of an indent that makes room for a long word
NARROWEST = 20  # on a narrower terminal nothing is wrapped
FARTHEST = 48  # no column begins further right
DEEP = 8  # a line that is indented as far already continues a column


def width_of(stream: TextIO, environ: Mapping[str, str]) -> int:
    """Return the columns of a terminal, or 0 if text for this stream is not wrapped: scripts read it by line."""
    if not stream.isatty():
        return 0
    told = environ.get("COLUMNS", "")
    try:
        columns = int(told) if re.fullmatch("[0-9]{1,4}", told) else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0
    return columns if columns >= NARROWEST else 0


def cells(text: str) -> int:
    r"""Return how many columns a terminal needs for printable text; a tab takes at most eight.

    >>> cells("abc"), cells("日本"), cells("a\tb")
    (3, 4, 10)
    """
    tabs = 7 * text.count("\t")
    if text.isascii():
        return len(text) + tabs
    return tabs + sum(0 if combining(sign) else 2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def shortened(text: str, width: int) -> str:
    """Return printable text in at most `width` columns, with `...` for what is left out at its end.

    >>> shortened("abcdefgh", 8), shortened("abcdefghi", 8)
    ('abcdefgh', 'abcde...')
    """
    if cells(text) <= width:
        return text
    kept, used = "", 0
    for sign in text:
        used += cells(sign)
        if used > width - 3:
            break
        kept += sign
    return f"{kept}..."


def hanging_indent(line: str, width: int) -> int:
    """Return the column at which the text of a line continues.

    >>> hanging_indent("error: a: b", 80), hanging_indent("ok    disk      room", 80), hanging_indent("  a b", 80)
    (7, 16, 4)
    """
    if label := LABEL.match(line):
        return label.end()
    limit = min(FARTHEST, width // 2)
    columns = [match.end() for match in COLUMN.finditer(line, 0, limit + 1) if match.end() <= limit]
    lead = len(line) - len(line.lstrip())
    return columns[-1] if columns else min(lead if lead >= DEEP else lead + 2, limit)


def wrapped(line: str, width: int, whole: Sequence[tuple[int, int]] = ()) -> tuple[int, Iterator[tuple[int, int]]]:
    """Return the hanging indent, and where in the line each row begins and ends.

    Words and the parts in `whole` are never broken; one that is too wide for its column moves all rows to the left, and
    one that is too wide for any row gets a row to itself.
    """
    if not width or cells(line) <= width:
        return 0, iter(((0, len(line)),))
    words = tuple(_words(line, whole))
    widest = max((cells(line[begins:ends].lstrip()) for begins, ends in words), default=0)
    indent, room = hanging_indent(line, width), width - widest
    indent = room if LEAST <= room < indent else indent
    return indent, _rows(line, width, indent, words)


def _words(line: str, whole: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield where each word begins, with the spaces before it, and ends."""
    begins, ends = 0, 0
    for match in WORD.finditer(line):
        ends = match.end()
        if not any(start < ends < end for start, end in whole):
            yield begins, ends
            begins = ends
    if begins < ends:
        yield begins, ends


def _rows(line: str, width: int, indent: int, words: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    start = end = used = 0
    one_row = True
    for begins, ends in words:
        word = line[begins:ends].lstrip()
        gap = cells(line[begins:ends]) - cells(word)
        # Text in a column further right goes to the next row, whole if it fits; a break at the indent gains no room.
        below = one_row and gap > 1
        if end and used + gap > indent and (below or used + gap + cells(word) > width):
            yield start, end
            start, used, gap, one_row = ends - len(word), indent, 0, False
        used += gap + cells(word)
        end = ends
    yield start, end
