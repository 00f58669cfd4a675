import pytest

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.http.headers import Headers, Sent, header_pattern
from table_tests import each

ONE_EACH = "header names are case-insensitive, and `_` counts as `-`: keep one of them"
JSON = header_pattern({"Content-Type": "application/JSON", "X-Mode": "Dry"})


def sent(*values: str, mode: str = "Dry") -> Sent:
    return [*(("Content-Type", value) for value in values), ("x-mode", mode), ("x-other", "1")]


@each(
    ("headers", "answers"),
    [
        (sent("application/json"), (True, True)),
        (sent("Application/JSON ; charset=utf-8"), (True, True)),
        (sent(" application/json\t"), (True, True)),
        (sent("application/json", "application/json"), (True, True)),
        # Servers could read these as JSON or as something else: an allow does not match, a deny does.
        (sent("application/json", "text/html"), (False, True)),
        (sent("application/json, text/html"), (False, True)),
        (sent("application/json;x=, text/html"), (False, True)),
        (sent("text/plain;application/json"), (False, True)),
        (sent('"application/json"'), (False, True)),
        (sent("application/json", mode="dry"), (False, True)),
        # CGI-style servers read these as the same header and may use the last value.
        ([*sent("application/json"), ("X_Mode", "wet")], (False, True)),
        ([*sent("application/json"), ("x_mode", "Dry")], (False, True)),
        ([("content_type", "application/json"), ("X_MODE", "Dry")], (False, True)),
        (sent("application/json", mode="wet, dry"), (False, True)),
        (sent("application/json5"), (False, False)),
        (sent("text/html"), (False, False)),
        (sent("application/json", mode="wet"), (False, False)),
        (sent(), (False, False)),
        ([], (False, False)),
    ],
)
def test_an_allow_needs_headers_without_other_values_and_a_deny_finds_them_among_others(
    headers: Sent, answers: tuple[bool, bool]
) -> None:
    assert (JSON.is_all_of(headers), JSON.is_within(headers)) == answers


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        (sent("application/json"), []),
        ([*sent("application/json"), ("X_Mode", "Dry")], ["header x_mode beside x-mode"]),
        ([("x-mode", "a\x1b"), ("x-mode", "Dry")], ["header content-type (none)", "header x-mode"]),
    ],
)
def test_names_each_header_that_differs(headers: Sent, told: list[str]) -> None:
    assert list(JSON.differences(headers)) == told


@each("value", ['"a"', "a;b", "a, b", 'x, "a"', "x, a;b", "x;a"])
def test_a_deny_finds_a_value_that_contains_separators(value: str) -> None:
    named = value.removeprefix("x").lstrip(",; ")
    assert header_pattern({"x-tag": named}).is_within([("x-tag", value)])


def test_shows_a_pattern_as_headers() -> None:
    assert str(JSON) == "content-type: application/json and x-mode: Dry"


@each(
    ("named", "what", "hint"),
    [
        ({}, "`headers` is empty", "remove it, or write `headers: {content-type: application/json}`"),
        (
            {"Accept": "a", "accept": "a"},
            "duplicate header in `headers`",
            ONE_EACH,
        ),
        ({"x-a": "a", "x_a": "a"}, "duplicate header in `headers`", ONE_EACH),
        ({"a b": "x"}, "not a header name: 'a b'", "write a name such as `content-type`"),
        ({"é": "x"}, r"not a header name: '\xe9'", "write a name such as `content-type`"),
        ({"Host": "a.test"}, "a rule cannot match the header `host`", "the entry names the host"),
        (
            {"content-length": "1"},
            "a rule cannot match the header `content-length`",
            "the size of a body is `max_body`",
        ),
        ({"te": "x"}, "a rule cannot match the header `te`", "it concerns the connection and is not forwarded"),
        ({"x": "é"}, r"not a header value: '\xe9'", "write it as it is sent, in ASCII, without spaces around it"),
        ({"x": " a"}, "not a header value: ' a'", "write it as it is sent, in ASCII, without spaces around it"),
        ({"x": "a\nb"}, r"not a header value: 'a\nb'", "write it as it is sent, in ASCII, without spaces around it"),
        (
            {"content-type": "text/html; charset=utf-8"},
            "not a media type: 'text/html; charset=utf-8'",
            "write one such as `application/json`, without parameters",
        ),
        (
            {"content-type": "json"},
            "not a media type: 'json'",
            "write one such as `application/json`, without parameters",
        ),
    ],
)
def test_rejects_headers_that_no_rule_can_match(named: dict[str, str], what: str, hint: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        header_pattern(named)
    assert (invalid.value.what, invalid.value.hint) == (what, hint)


def test_parsed_headers_can_be_matched_repeatedly() -> None:
    read = Headers(sent("application/json, text/html"))
    for _ in range(2):
        assert (JSON.is_all_of(read), JSON.is_within(read)) == (False, True)
    assert (read.holds("x-mode", "dry"), read.holds("x-mode", "wet"), read.holds("x-none", "")) == (True, False, False)
