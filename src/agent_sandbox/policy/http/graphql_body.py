"""The body of a GraphQL request -> what it asks for. What servers could read as two different things is doubtful.

Strict on purpose: one operation in plain JSON is what clients send. Whatever is done beside that has no use but to be
read otherwise by a server than here.
"""

import json
import re
from typing import Any, NoReturn

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.graphql_operation import NAME, Operation
from agent_sandbox.policy.http.request import Request

MAX_BODY = 256 * 1024  # bytes: the longest text of an issue, with room
MAX_OBJECTS = 5_000  # of JSON in it; each is seen to have no key twice
TOO_LONG = f"a body of more than {MAX_BODY // 1024} KiB"
KEYS = frozenset({"query", "operationName", "variables"})
JSON = re.compile(r'application/json(?:[ \t]*;[ \t]*charset=("?)utf-8\1)?', re.ASCII | re.IGNORECASE)
ABOUT_THE_BODY = frozenset({"content-type", "content-encoding"})


def with_body(request: Request, body: bytes) -> Request:
    """Return the request with what its body asks for."""
    doubted = with_doubt(request._replace(body_size=len(body)))
    return doubted._replace(operation=doubted.operation or read_operation(body))


def with_doubt(request: Request) -> Request:
    """Return the request as it is while a body behind its head could be read as GraphQL, else with the doubt."""
    doubt = _doubt(request)
    return request._replace(operation=Operation(doubt=doubt)) if doubt else request


def _doubt(request: Request) -> str:
    if request.body_size == 0:
        return "no body"
    if request.query:
        return "a query string beside the body"
    if (request.body_size or 0) > MAX_BODY:
        return TOO_LONG
    # Servers that fold `-` and `_` would read `content_type`, too.
    about = [field for field in request.headers if field[0].lower().replace("_", "-") in ABOUT_THE_BODY]
    is_json = len(about) == 1 and about[0][0].lower() == "content-type" and JSON.fullmatch(about[0][1].strip(" \t"))
    return "" if is_json else "not `content-type: application/json` alone, without an encoding"


def read_operation(body: bytes) -> Operation:
    """Return what a body asks for, or the doubt that it leaves.

    >>> str(read_operation(b'{"query": "{ me: viewer { login } }"}'))
    'query viewer'
    """
    if len(body) > MAX_BODY:
        return Operation(doubt=TOO_LONG)
    try:
        document, name = _parts(
            json.loads(body.decode("utf-8"), object_pairs_hook=_Unique(), parse_constant=_no_constant)
        )
        from agent_sandbox.policy.http.graphql_document import operation_of  # noqa: PLC0415 - it says why itself

        return operation_of(document, name)
    except Ambiguous as doubt:
        return Operation(doubt=str(doubt))
    except (ValueError, RecursionError):
        return Operation(doubt="a body that is no JSON in UTF-8")


class _Unique:
    """Makes the objects of one body, as many as it may have."""

    def __init__(self) -> None:
        self._left = MAX_OBJECTS

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0:
            raise Ambiguous(f"more than {MAX_OBJECTS} objects")
        named = dict(pairs)
        if len(named) != len(pairs):
            raise Ambiguous("a key that is there twice")
        return named


def _no_constant(name: str) -> NoReturn:
    raise Ambiguous(f"a number that JSON does not have: {name}")


def _parts(asked: object) -> tuple[str, str | None]:
    """Return the document, and the name of the operation in it that is meant."""
    if not isinstance(asked, dict):
        raise Ambiguous("several operations in one body, or none")
    if not asked.keys() <= KEYS:
        raise Ambiguous("a key beside `query`, `operationName` and `variables`")
    document, name, variables = (asked.get(key) for key in ("query", "operationName", "variables"))
    if not isinstance(document, str):
        raise Ambiguous("no document in `query`")
    if name is not None and not (isinstance(name, str) and NAME.fullmatch(name)):
        raise Ambiguous("an `operationName` that is none")
    if variables is not None and not isinstance(variables, dict):
        raise Ambiguous("`variables` that are none")
    return document, name
