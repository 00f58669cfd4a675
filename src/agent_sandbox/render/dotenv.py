"""A `.env` file, edited in place: our variables are set, everything else stays, byte for byte."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

# One assignment; a quoted value may go over several lines, and what looks like an assignment in it is none.
ASSIGNMENT = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(?P<key>[A-Za-z_][A-Za-z0-9_.-]*)[ \t]*[=:]
        [ \t]*(?P<value>"(?:[^"\\]|\\.)*"|'[^']*'|[^\n]*)""",
    re.MULTILINE | re.VERBOSE,
)
NOTE = re.compile(r"[ \t]#")
COMMENT = "# Plain `docker compose` finds the agent's sandbox by these two lines. Written by agent-sandbox."


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The value of a variable, and where it stands."""

    value: str
    start: int
    end: int


def assignments(text: str) -> dict[str, Assignment]:
    """Return what each variable is set to; the last assignment counts, as it does for Compose."""
    found: dict[str, Assignment] = {}
    position = 0
    while match := ASSIGNMENT.search(text, position):
        written, start = _written(match["value"]), match.start("value")
        found[match["key"]] = Assignment(value=_plain(written), start=start, end=start + len(written))
        position = match.end()
    return found


def set_variables(text: str, values: Mapping[str, str]) -> str:
    """Return the text in which these variables have these values: replaced where they stand, or added at the end."""
    present = assignments(text)
    for key in sorted(values.keys() & present.keys(), key=lambda key: -present[key].start):
        if present[key].value != values[key]:
            text = text[: present[key].start] + values[key] + text[present[key].end :]
    end = "\r\n" if "\r\n" in text else "\n"
    missing = [f"{key}={value}{end}" for key, value in values.items() if key not in present]
    if not missing:
        return text
    gap = "" if not text else end if text.endswith("\n") else end * 2
    return f"{text}{gap}{COMMENT}{end}{''.join(missing)}"


def _written(value: str) -> str:
    """Return the value without what stands behind it: a comment, space, the rest of a line end."""
    return value if _is_quoted(value) else NOTE.split(value, maxsplit=1)[0].rstrip(" \t\r")


def _plain(value: str) -> str:
    return value[1:-1] if _is_quoted(value) else value.strip()


def _is_quoted(value: str) -> bool:
    return len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
