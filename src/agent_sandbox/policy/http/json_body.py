"""Read a JSON body so that no other program can read it differently: each key once, UTF-8, no other encoding."""

import json
import re
from typing import Any, NoReturn

from agent_sandbox.policy.errors import Ambiguous

MAX_OBJECTS = 5_000  # JSON objects in a request body; each is checked for duplicate keys
JSON = re.compile(r'application/json(?:[ \t]*;[ \t]*charset=("?)utf-8\1)?', re.ASCII | re.IGNORECASE)
ABOUT_THE_BODY = frozenset({"content-type", "content-encoding"})
NOT_PLAIN_JSON = "not exactly `content-type: application/json` without a content encoding"


def is_plain_json(headers: tuple[tuple[str, str], ...]) -> bool:
    """Return whether the headers announce JSON in UTF-8, once, and nothing else about the body.

    >>> is_plain_json((("content-type", "application/json"),))
    True
    """
    # Servers that treat `-` and `_` alike would also read `content_type`.
    about = [field for field in headers if field[0].lower().replace("_", "-") in ABOUT_THE_BODY]
    if len(about) != 1 or about[0][0].lower() != "content-type":
        return False
    return JSON.fullmatch(about[0][1].strip(" \t")) is not None


def read_plain_json(body: bytes, *, objects: int = MAX_OBJECTS) -> Any:  # noqa: ANN401 - any document
    """Return the document, or raise Ambiguous. The caller limits the length of the body.

    >>> read_plain_json(b'{"a": [1, null]}')
    {'a': [1, None]}
    """
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_Unique(objects), parse_constant=_no_constant)
    except Ambiguous:
        raise
    except (ValueError, RecursionError) as error:
        raise Ambiguous("a body that is not JSON in UTF-8") from error


class _Unique:
    """A `json` hook that rejects duplicate keys and too many objects in one body."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0:
            raise Ambiguous(f"more than {self._most} objects")
        named = dict(pairs)
        if len(named) != len(pairs):
            raise Ambiguous("a duplicate key")
        return named


def _no_constant(name: str) -> NoReturn:
    raise Ambiguous(f"a number that JSON does not have: {name}")
