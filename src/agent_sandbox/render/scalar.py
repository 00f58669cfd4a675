r"""Values as YAML and JSON text from which no value breaks out, whatever it holds: quotes, newlines, `{{`, `#`."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

# What stays bare; everything else is quoted, since YAML has opinions on numbers, colons, and words such as `no`.
PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@-]*(?:[:=][A-Za-z0-9/][A-Za-z0-9_./@-]*)*|[0-9]+(?:\.[0-9]+)?[smgk]")
WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
# Beyond what JSON escapes: characters that YAML refuses or takes for line ends, and those that turn text around.
UNSEEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff]")


def to_json(value: Any) -> str:  # noqa: ANN401 - whatever json takes
    """Return JSON on one line; letters of all scripts stay readable, what can't be seen is escaped."""
    return UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def to_yaml(value: Any) -> str:  # noqa: ANN401 - whatever a document holds
    """Return the value in YAML's flow style, on one line.

    >>> to_yaml({"test": ["CMD", "true"], "retries": 2, "source": ".."})
    '{test: [CMD, "true"], retries: 2, source: ".."}'
    """
    match value:
        case bool() | None:
            return json.dumps(value)
        case int() | float():
            return repr(value)
        case str():
            return value if PLAIN.fullmatch(value) and value.lower() not in WORDS else to_json(value)
        case Mapping():
            return "{" + ", ".join(f"{to_yaml(key)}: {to_yaml(inner)}" for key, inner in value.items()) + "}"
        case Sequence():
            return "[" + ", ".join(map(to_yaml, value)) + "]"
    raise TypeError(f"no YAML for {type(value).__name__}")


def to_comment(value: str) -> str:
    """Return the text for a comment: whatever would end the line is spelled out."""
    return to_json(value)[1:-1].replace('\\"', '"').replace("\\\\", "\\")
