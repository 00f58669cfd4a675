"""Bytes -> text: UTF-8, with or without a byte order mark, and the exact place where it is not."""

import codecs
import re

from agent_sandbox.problems import Problem, UserError

HINT = "save the file as UTF-8"
OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# What YAML refuses, and what makes a line read other than it is: marks of direction (CVE-2021-42574), and line ends of
# YAML 1.1 that editors do not show as such, behind which an entry looks like the end of a comment.
NO_TEXT = re.compile(
    r"[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    r"|[\ufeff\u2028-\u202e\u2066-\u2069]|\r(?!\n)"
)


def decode_policy(content: bytes, *, file: str) -> str:
    """Return the text, or raise UserError with the line and column of the first thing that is none."""
    if content.startswith(OTHER_MARKS):
        raise UserError([Problem(where=file, what="is UTF-16", hint=HINT)])
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        where = _where(file, content[: error.start].decode("utf-8"))
        what = f"byte 0x{content[error.start]:02x} is not UTF-8"
        raise UserError([Problem(where=where, what=what, hint=HINT)]) from error
    if found := NO_TEXT.search(text):
        where = _where(file, text[: found.start()])
        what = f"a character that a text file does not hold: {found[0]!a}"
        raise UserError([Problem(where=where, what=what, hint="take it out")])
    return text


def _where(file: str, before: str) -> str:
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f"{file}:{line}:{column}"
