"""Parse the body of a GraphQL request into its operation. What servers could read differently is ambiguous.

Strict on purpose: clients send one operation in plain JSON. Any other form serves only to be read differently by a
server.
"""

from typing import Any

from msgspec.structs import replace

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.bounds import MAX_OPERATION, too_large
from agent_sandbox.policy.http.graphql_operation import NAME, Operation
from agent_sandbox.policy.http.json_body import NOT_PLAIN_JSON, is_plain_json, read_plain_json
from agent_sandbox.policy.http.request import Request

MAX_BODY, TOO_LONG = MAX_OPERATION, too_large(MAX_OPERATION)
KEYS = frozenset({"query", "operationName", "variables"})


def with_body(request: Request, body: bytes) -> Request:
    """Return the request with the GraphQL operation in its body."""
    checked = with_doubt(replace(request, body_size=len(body)))
    return replace(checked, operation=checked.operation or read_operation(body))


def with_doubt(request: Request) -> Request:
    """Return the request; if its head rules out a GraphQL body, set an operation that says why."""
    doubt = _doubt(request)
    return replace(request, operation=Operation(doubt=doubt)) if doubt else request


def _doubt(request: Request) -> str:
    if request.body_size == 0:
        return "no body"
    if request.query:
        return "a query string in addition to the body"
    if (request.body_size or 0) > MAX_BODY:
        return TOO_LONG
    return "" if is_plain_json(request.headers) else NOT_PLAIN_JSON


def read_operation(body: bytes) -> Operation:
    """Return the operation in a body, or why it is ambiguous.

    >>> str(read_operation(b'{"query": "{ me: viewer { login } }"}'))
    'query viewer'
    """
    if len(body) > MAX_BODY:
        return Operation(doubt=TOO_LONG)
    try:
        document, name, variables = _parts(read_plain_json(body))
        from agent_sandbox.policy.http.graphql_document import operation_of  # noqa: PLC0415 - its docstring says why

        return operation_of(document, name, variables)
    except Ambiguous as doubt:
        return Operation(doubt=str(doubt))


def _parts(asked: object) -> tuple[str, str | None, dict[str, Any] | None]:
    """Return the document, the name of the selected operation, and the variables."""
    if not isinstance(asked, dict):
        raise Ambiguous("a body that is not one JSON object")
    if not asked.keys() <= KEYS:
        raise Ambiguous("a key other than `query`, `operationName` and `variables`")
    document, name, variables = (asked.get(key) for key in ("query", "operationName", "variables"))
    if not isinstance(document, str):
        raise Ambiguous("no document in `query`")
    if name is not None and not (isinstance(name, str) and NAME.fullmatch(name)):
        raise Ambiguous("an invalid `operationName`")
    if variables is not None and not isinstance(variables, dict):
        raise Ambiguous("`variables` that are not an object")
    return document, name, variables
