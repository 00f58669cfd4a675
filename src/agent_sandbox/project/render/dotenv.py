"""Edit a `.env` file in place: set our variables and keep all other bytes."""

import re
from collections.abc import Collection, Mapping

from msgspec import Struct

from agent_sandbox.stack.engine import COMMAND, PREFIX

# One assignment; a quoted value may span lines, and text in it is not an assignment.
ASSIGNMENT = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(?P<key>[A-Za-z_][A-Za-z0-9_.-]*)[ \t]*[=:]
        [ \t]*(?P<value>"(?:[^"\\]|\\.)*"|'[^']*'|[^\n]*)""",
    re.MULTILINE | re.VERBOSE,
)
NOTE = re.compile(r"[ \t]#")
COMMENT = f"# With these two lines, plain `{COMMAND}` finds the agent's sandbox. Written by agent-sandbox."
OF_THE_CLONE = "# The name of this clone's sandbox. Written by agent-sandbox, and not to be checked in."
# Also the comment of earlier versions, with the empty line that `set_variables` puts before it.
COMMENTS = re.compile(
    rf"(?:(?<=\n)\r?\n)?^# (?:{re.escape(COMMENT[2:])}|{re.escape(OF_THE_CLONE[2:])}"
    rf"|Plain `{COMMAND}` finds the agent's sandbox by these two lines\."
    r" Written by agent-sandbox\.)\r?(?:\n|\Z)",
    re.MULTILINE,
)


SHOWN = re.compile(rf"{PREFIX}\w+", re.ASCII)
NO_VARIABLE = "(a line that sets no variable)"


class Assignment(Struct, frozen=True, kw_only=True):
    """A variable's value and its position."""

    value: str
    start: int
    end: int


def assignments(text: str) -> dict[str, Assignment]:
    """Return the assignment of each variable; the last one counts."""
    found: dict[str, Assignment] = {}
    position = 0
    while match := ASSIGNMENT.search(text, position):
        written, start = _written(match["value"]), match.start("value")
        found[match["key"]] = Assignment(value=_plain(written), start=start, end=start + len(written))
        position = match.end()
    return found


def set_variables(text: str, values: Mapping[str, str], *, comment: str = COMMENT) -> str:
    """Return the text with these variables set: replaced in place, or added at the end after the comment."""
    present = assignments(text)
    for key in sorted(values.keys() & present.keys(), key=lambda key: -present[key].start):
        if present[key].value != values[key]:
            text = text[: present[key].start] + values[key] + text[present[key].end :]
    end = "\r\n" if "\r\n" in text else "\n"
    missing = [f"{key}={value}{end}" for key, value in values.items() if key not in present]
    if not missing:
        return text
    gap = "" if not text else end if text.endswith("\n") else end * 2
    return f"{text}{gap}{comment}{end}{''.join(missing)}"


def remove_variables(text: str, keys: Collection[str]) -> str:
    """Return the text without the lines of these variables and without our comment."""
    present = assignments(text)
    for key in sorted(present.keys() & keys, key=lambda key: -present[key].start):
        start = text.rfind("\n", 0, present[key].start) + 1
        end = text.find("\n", present[key].end) + 1 or len(text)
        text = text[:start] + text[end:]
    return COMMENTS.sub("", text)


def without_values(text: str, before: str) -> str:
    r"""Return the text with neither values nor comments, to be shown: it says which values differ from those `before`.

    >>> without_values("A=1\nB=2\n# 3\n", "A=1\n")
    'A=(hidden)\nB=(hidden, changed)\n(a line that sets no variable)\n'
    """
    known, lines, position = assignments(before), list[str](), 0
    for match in [*ASSIGNMENT.finditer(text), None]:
        between = text[position : match.start() if match else len(text)].splitlines()
        lines += [line if line == COMMENT else NO_VARIABLE for line in between if line.strip()]
        if match:
            key, value = match["key"], _plain(_written(match["value"]))
            same = key in known and known[key].value == value
            shown = value if SHOWN.fullmatch(key) else "(hidden)" if same else "(hidden, changed)"
            lines.append(f"{key}={shown}")
            position = match.end()
    return "".join(f"{line}\n" for line in lines)


def _written(value: str) -> str:
    """Return the value without a trailing comment, spaces or carriage return."""
    return value if _is_quoted(value) else NOTE.split(value, maxsplit=1)[0].rstrip(" \t\r")


def _plain(value: str) -> str:
    return value[1:-1] if _is_quoted(value) else value.strip()


def _is_quoted(value: str) -> bool:
    return len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
