"""Decode a policy file: UTF-8, with or without a byte order mark. Problems have a line and column."""

import codecs
import re

from agent_sandbox.problems import Problem, UserError

HINT = "save the file as UTF-8"
OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Most policies consist of these bytes, and need no pattern.
PLAIN = b"\t\n" + bytes(range(0x20, 0x7F))
# Characters that YAML forbids, and those that can make a line look different: direction marks (CVE-2021-42574), and
# line ends of YAML 1.1 that editors do not display, after which an entry looks like the end of a comment. Compiled on
# first use.
NO_TEXT = (
    r"[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    r"|[\ufeff\u2028-\u202e\u2066-\u2069]|\r(?!\n)"
)


def decode_policy(content: bytes, *, file: str) -> str:
    """Return the text, or raise UserError with the place of the first invalid byte or character."""
    if content.startswith(OTHER_MARKS):
        raise UserError([Problem(where=file, what="UTF-16, not UTF-8", hint=HINT)])
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        where = _where(file, content[: error.start].decode("utf-8"))
        what = f"byte 0x{content[error.start]:02x} is not UTF-8"
        raise UserError([Problem(where=where, what=what, hint=HINT)]) from error
    if content.translate(None, PLAIN) and (found := re.search(NO_TEXT, text)):
        where = _where(file, text[: found.start()])
        what = f"a character that is not allowed in a text file: {found[0]!a}"
        raise UserError([Problem(where=where, what=what, hint="remove it")])
    return text


def _where(file: str, before: str) -> str:
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f"{file}:{line}:{column}"
