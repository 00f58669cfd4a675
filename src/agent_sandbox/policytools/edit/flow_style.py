"""Write values as YAML in one line that parses back to the same values."""

import json
import re

from agent_sandbox.policyfile.text.scalars import Doubtful, plain_value

PLAIN = re.compile(r"[A-Za-z0-9./_][A-Za-z0-9./_-]*")


def flow(value: object) -> str:
    """Return a value in YAML flow style.

    >>> flow({"path": {"exact": "/a b"}, "methods": ["GET"], "on": True})
    '{path: {exact: "/a b"}, methods: [GET], "on": true}'
    """
    match value:
        case dict():
            return f"{{{', '.join(f'{flow(key)}: {flow(inner)}' for key, inner in value.items())}}}"
        case list():
            return f"[{', '.join(map(flow, value))}]"
        case bool():
            return str(value).lower()
        case None:
            return "null"
    return _word(str(value))


def _word(text: str) -> str:
    try:
        plain = PLAIN.fullmatch(text) and plain_value(text) == text
    except Doubtful:
        plain = False
    return text if plain else json.dumps(text, ensure_ascii=False)
