"""Find the comments of a YAML text by line."""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from yaml.tokens import Token

from agent_sandbox.policyfile.text import document


class Comment(Struct, frozen=True, kw_only=True):
    """The text of a comment, and whether it is alone on its line: then it belongs to the next line."""

    text: str
    alone: bool


def comments_by_line(text: str) -> Mapping[int, Comment]:
    r"""Return the comments by line number. The text must be valid YAML.

    Only a comment can follow the last token of a line: a `#` inside quotes or a block is part of a token.


    >>> comments_by_line("- 'a # b'  # why\n")
    {1: Comment(text='why', alone=False)}
    """
    ends = _ends(text)
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        end = ends.get(number, 0)
        rest = line[end:].lstrip()
        if rest.startswith("#"):
            found[number] = Comment(text=rest.lstrip("#").strip(), alone=end == 0)
    return found


def remarks(comments: Mapping[int, Comment], line: int) -> tuple[str, ...]:
    """Return the comments on a line and directly above it, from top to bottom."""
    found = [comments[line].text] if line in comments else []
    while (above := comments.get(line := line - 1)) and above.alone:
        found.append(above.text)
    return tuple(filter(None, reversed(found)))


def _ends(text: str) -> dict[int, int]:
    """Return the column where the last token of each line ends; for a line inside a token, a column beyond its end."""
    ends: dict[int, int] = {}
    for token in _tokens(text):
        first, last = token.start_mark, token.end_mark
        if first.index == last.index:
            continue
        for line in range(first.line, last.line):
            ends[line + 1] = len(text)
        ends[last.line + 1] = last.column
    return ends


def _tokens(text: str) -> Iterator[Token]:
    loader = document.LOADER(text)
    try:
        while loader.check_token():
            yield loader.get_token()  # type: ignore[no-untyped-call] # the stubs leave it out
    finally:
        loader.dispose()
