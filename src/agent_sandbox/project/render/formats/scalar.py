r"""Quote values as YAML and JSON, so that no content (quotes, newlines, `{{`, `#`) breaks out."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

# Values that need no quotes; YAML interprets numbers, colons, and words such as `no`.
PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@-]*(?:[:=][A-Za-z0-9/][A-Za-z0-9_./@-]*)*|[0-9]+(?:\.[0-9]+)?[smgk]")
WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
# In addition to JSON's escapes: characters that YAML rejects or treats as line ends, and bidirectional controls.
UNSEEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff]")


def to_json(value: Any) -> str:  # noqa: ANN401 - whatever json takes
    """Return JSON on one line; letters of all scripts stay readable, invisible characters are escaped."""
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
    """Return the text for a comment, with line ends escaped."""
    return to_json(value)[1:-1].replace('\\"', '"').replace("\\\\", "\\")
