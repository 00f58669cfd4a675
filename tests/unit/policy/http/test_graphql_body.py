import json

from agent_sandbox.policy.http.graphql_body import MAX_BODY, read_operation, with_body, with_doubt
from agent_sandbox.policy.http.graphql_operation import Operation, Selection
from agent_sandbox.policy.http.request import Request, parse_request
from table_tests import each


def doubt_of(request: Request) -> str:
    operation = with_doubt(request).operation
    assert operation is not None
    return operation.doubt


JSON = (("content-type", "application/json"),)
SELECTED = Selection(name="viewer", below=(Selection(name="login"),))
VIEWER = Operation(kind="query", fields=frozenset({"viewer"}), selections=(SELECTED,))
NOT_JSON = "not exactly `content-type: application/json` without a content encoding"


def asked(headers: tuple[tuple[str, str], ...] = JSON, target: str = "/graphql", size: int | None = None) -> Request:
    return parse_request(
        scheme="https", host="a.test", port=443, method="POST", target=target, headers=headers, body_size=size
    )


@each(
    "body",
    [
        b'{"query": "{viewer{login}}"}',
        b' {"variables": {"a": {"b": 1}}, "query": "query Q {viewer{login}}", "operationName": "Q"}\n',
        b'{"query": "{viewer{login}}", "operationName": null, "variables": null}',
        b'{"qu\\u0065ry": "{v\\u0069ewer{login}}"}',
        b'{"query": "query($a: String){viewer{login}}", "variables": {"a": "caf\xc3\xa9 \\ud83d"}}',
    ],
)
def test_parses_a_json_body_with_one_operation(body: bytes) -> None:
    assert read_operation(body) == VIEWER


def test_selects_the_operation_by_operation_name() -> None:
    body = {"query": "query A {viewer{login}} mutation B {deleteRef{id}}", "operationName": "B"}
    assert str(read_operation(json.dumps(body).encode())) == "mutation deleteRef"


NO_JSON = "a body that is not JSON in UTF-8"
TWICE = "a duplicate key"


@each(
    ("body", "doubt"),
    [
        (b"", NO_JSON),
        (b"{viewer{login}}", NO_JSON),
        (b'{"query": "{viewer}"} {"query": "{node}"}', NO_JSON),
        (b"{'query': '{viewer}'}", NO_JSON),
        (b'{"query": "{viewer}",}', NO_JSON),
        (b'{"query": "{viewer}"/**/}', NO_JSON),
        (b'{"query": "{view\ner}"}', NO_JSON),
        (b'\xef\xbb\xbf{"query": "{viewer}"}', NO_JSON),
        ('{"query": "{viewer}"}'.encode("utf-16"), NO_JSON),
        ('{"query": "{viewer}"}'.encode("utf-16-le"), NO_JSON),
        (b'{"query": "{viewer}", "variables": {"a": "\xff"}}', NO_JSON),
        (b'{"query": "{viewer}", "variables": {"a": ' + b"[" * 100_000 + b"}}", NO_JSON),
        (b'{"query": "{viewer}", "variables": {"a": ' + b"9" * 5000 + b"}}", NO_JSON),
        (b'{"query": "{viewer}", "variables": {"a": NaN}}', "a number that JSON does not have: NaN"),
        (b'{"query": "{viewer}", "query": "mutation {deleteRef}"}', TWICE),
        (b'{"query": "{viewer}", "qu\\u0065ry": "mutation {deleteRef}"}', TWICE),
        (b'{"query": "{viewer}", "variables": {"a": 1, "a": 2}}', TWICE),
        (
            b'{"query": "{viewer}", "Query": "mutation {deleteRef}"}',
            "a key other than `query`, `operationName` and `variables`",
        ),
        (b'{"query": "{viewer}", "extensions": {}}', "a key other than `query`, `operationName` and `variables`"),
        (b'{"id": "abc"}', "a key other than `query`, `operationName` and `variables`"),
        (b'{"query": "{viewer}", "variables": {"a": [' + b"{}," * 5_000 + b"{}]}}", "more than 5000 objects"),
        (b"{}", "no document in `query`"),
        (b'{"query": null}', "no document in `query`"),
        (b'{"query": ["{viewer}"]}', "no document in `query`"),
        (b'[{"query": "{viewer}"}]', "a body that is not one JSON object"),
        (b'"{viewer}"', "a body that is not one JSON object"),
        (b'{"query": "{viewer}", "operationName": ""}', "an invalid `operationName`"),
        (b'{"query": "{viewer}", "operationName": ["A"]}', "an invalid `operationName`"),
        (b'{"query": "{viewer}", "variables": []}', "`variables` that are not an object"),
        (b'{"query": "{viewer}", "variables": "{}"}', "`variables` that are not an object"),
        (b'{"query": "{viewer \\ud800}"}', "a document with non-ASCII characters: put values into `variables`"),
        (b'{"query": "{viewer \\u0000}"}', "a document with non-ASCII characters: put values into `variables`"),
        (b'{"query": ""}', "a document that is not GraphQL, or too deep or too long"),
        (b'{"query": "{viewer}"}' + b" " * MAX_BODY, "a body of more than 256 KiB"),
    ],
)
def test_any_other_body_is_ambiguous(body: bytes, doubt: str) -> None:
    assert Operation(doubt=doubt) == read_operation(body)


@each(
    "value",
    [
        "application/json",
        "Application/JSON; charset=utf-8",
        'application/json;charset="UTF-8"',
        " application/json\t; charset=utf-8 ",
    ],
)
def test_the_content_type_json_in_utf_8_is_not_ambiguous(value: str) -> None:
    assert with_doubt(asked((("accept", "*/*"), ("Content-Type", value)))).operation is None


@each(
    "headers",
    [
        (),
        (("content-type", "application/graphql"),),
        (("content-type", "application/json; charset=utf-16"),),
        (("content-type", "application/json; charset=utf-8; charset=utf-16"),),
        (("content-type", "application/json, text/plain"),),
        (("content-type", "multipart/form-data; boundary=application/json"),),
        (*JSON, *JSON),
        (*JSON, ("content_type", "multipart/form-data")),
        (("content_type", "application/json"),),
        (*JSON, ("Content-Encoding", "gzip")),
        (*JSON, ("content_encoding", "gzip")),
    ],
)
def test_another_content_type_or_encoding_is_ambiguous(headers: tuple[tuple[str, str], ...]) -> None:
    assert doubt_of(asked(headers)) == NOT_JSON


def test_a_query_string_an_empty_body_and_a_long_body_are_ambiguous_by_the_head() -> None:
    assert doubt_of(asked(target="/graphql?query=mutation{deleteRef}")) == "a query string in addition to the body"
    assert doubt_of(asked(size=MAX_BODY + 1)) == "a body of more than 256 KiB"
    assert doubt_of(asked(size=0)) == "no body"
    assert with_doubt(asked(size=MAX_BODY)).operation is None


def test_with_body_sets_operation_and_body_size() -> None:
    body = b'{"query": "{viewer{login}}"}'
    read = with_body(asked(), body)
    assert (read.operation, read.body_size) == (VIEWER, len(body))
    assert with_body(asked(()), body).operation == Operation(doubt=NOT_JSON)
