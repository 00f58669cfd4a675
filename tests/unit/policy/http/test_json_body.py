from agent_sandbox.policy import Ambiguous
from agent_sandbox.policy.http.json_body import is_plain_json, read_plain_json
from table_tests import each


@each(
    ("headers", "plain"),
    [
        ((("content-type", "application/json"),), True),
        ((("Content-Type", " Application/JSON ; charset=UTF-8 "),), True),
        ((("content-type", "application/json"), ("accept", "x")), True),
        ((), False),
        ((("content_type", "application/json"),), False),
        ((("content-type", "text/plain"),), False),
        ((("content-type", "application/json"), ("content_type", "application/json")), False),
        ((("content-type", "application/json"), ("content-encoding", "gzip")), False),
    ],
)
def test_accepts_only_one_json_content_type_without_a_content_encoding(
    headers: tuple[tuple[str, str], ...], *, plain: bool
) -> None:
    assert is_plain_json(headers) is plain


@each(
    ("body", "why"),
    [
        (b'{"a": 1, "b": {"a": 1}}', ""),
        (b'{"a": 1, "a": 1}', "a duplicate key"),
        (b'{"a": 1, "\\u0061": 1}', "a duplicate key"),
        (b"[{}, {}, {}]", "more than 2 objects"),
        (b"NaN", "a number that JSON does not have: NaN"),
        (b"\xef\xbb\xbf{}", "a body that is not JSON in UTF-8"),
        (b"\xff", "a body that is not JSON in UTF-8"),
        (b"{} {}", "a body that is not JSON in UTF-8"),
        (b"[" * 99_999, "a body that is not JSON in UTF-8"),
        (b"1" * 9_999, "a body that is not JSON in UTF-8"),
    ],
)
def test_a_document_that_two_parsers_could_read_differently_is_ambiguous(body: bytes, why: str) -> None:
    try:
        read_plain_json(body, objects=2)
        said = ""
    except Ambiguous as doubt:
        said = str(doubt)
    assert said == why
