from dataclasses import replace

import pytest

from agent_sandbox.policy import Ambiguous, Policy, Request
from agent_sandbox.policy.http.mcp_message import CALL, STREAM, McpMessage
from agent_sandbox.policytools.explain.request_line import (
    RequestLine,
    method_and_url,
    read_header,
    read_request,
    read_size,
)
from agent_sandbox.problems import UserError
from table_tests import each

NOTHING = Policy.deny_all("x")


@each(
    ("url", "host", "port", "target"),
    [
        ("https://example.org", "example.org", 443, "/"),
        ("HTTP://Example.ORG./a", "example.org", 80, "/a"),
        ("https://example.org:8443?x=/y", "example.org", 8443, "/?x=/y"),
        ("https://[::1]:1/a", "::1", 1, "/a"),
        ("https://example.org/a#b", "example.org", 443, "/a"),
    ],
)
def test_normalises_a_url_as_a_client_would_send_it(url: str, host: str, port: int, target: str) -> None:
    got = read_request(NOTHING, RequestLine(method="GET", url=url))
    assert (got.host, got.port, got.target) == (host, port, target)
    assert isinstance(got, Request)


@each(
    ("url", "hint"),
    [
        ("example.org", "https://example.org"),
        ("example.org:8443/a?b", "https://example.org:8443/a?b"),
        ("ftp://example.org/", "https://host/path"),
        ("https:/example.org", "https://host/path"),
    ],
)
def test_rejects_an_invalid_url_with_a_hint(url: str, hint: str) -> None:
    with pytest.raises(UserError) as error:
        read_request(NOTHING, RequestLine(method="GET", url=url))
    assert str(error.value) == f"{url}: not an http or https URL; write it as {hint}"


@pytest.mark.parametrize("url", ["https://me@example.org/", "https://example.org:0/", "https:///a", "https://a b/"])
def test_an_invalid_authority_is_ambiguous(url: str) -> None:
    with pytest.raises(Ambiguous):
        read_request(NOTHING, RequestLine(method="GET", url=url))


@each(
    ("words", "expected"),
    [
        (("https://a.test/",), ("GET", "https://a.test/")),
        (("post https://a.test/",), ("POST", "https://a.test/")),
        (("get", "https://a.test/"), ("GET", "https://a.test/")),
        (("a.test",), ("GET", "a.test")),
    ],
)
def test_request_without_a_method_is_a_get(words: tuple[str, ...], expected: tuple[str, str]) -> None:
    assert method_and_url(words) == expected


@each(
    ("words", "message"),
    [
        (("GET",), "GET: not one request; write `GET https://host/path`"),
        (("",), "not one request; write `GET https://host/path`"),
        (("GET https://a.test/", "x"), "GET https://a.test/ x: not one request; write `GET https://host/path`"),
        (
            ("get,post", "https://a.test/"),
            "get,post: more than one method; explain one at a time: `GET https://a.test/`",
        ),
    ],
)
def test_explain_takes_exactly_one_request(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError) as error:
        method_and_url(words)
    assert str(error.value) == message


def test_suggests_the_https_url_for_an_ssh_address() -> None:
    with pytest.raises(UserError) as error:
        read_request(NOTHING, RequestLine(method="GET", url="git@a.test:o/r.git"))
    hint = "git uses https in the sandbox: https://a.test/o/r.git"
    assert str(error.value) == f"git@a.test:o/r.git: not an http or https URL; {hint}"


def test_keeps_headers_and_body_size() -> None:
    header, size = read_header("Accept: a:b"), read_size("1KiB")
    line = RequestLine(method="GET", url="https://a.test/", headers=(header,), body_size=size)
    got = read_request(NOTHING, line)
    assert str(line) == "GET https://a.test/"
    assert (got.headers, got.body_size) == ((("accept", "a:b"),), 1024)
    assert read_size("300") == 300


def test_rejects_an_invalid_header_or_body_size() -> None:
    with pytest.raises(UserError, match=r"^accept: not a header; write it as `content-type: application/json`$"):
        read_header("accept")
    with pytest.raises(UserError, match=r"^1 ton: not a body size; write a number of bytes, or a number with B, "):
        read_size("1 ton")


def test_wraps_a_graphql_document_in_a_json_body() -> None:
    line = RequestLine(method="POST", url="https://a.test/", graphql='{ viewer(a: "b") { login } }')
    got = read_request(NOTHING, line)
    assert got.operation is not None
    assert (got.operation.kind, got.operation.fields) == ("query", frozenset({"viewer"}))
    assert (got.headers, got.body_size) == ((("content-type", "application/json"),), 43)


def test_a_given_content_type_overrides_json_for_a_graphql_document() -> None:
    headers = (("content-type", "text/plain"),)
    got = read_request(NOTHING, RequestLine(method="POST", url="https://a.test/", headers=headers, graphql="{a}"))
    assert got.operation is not None
    assert (got.headers, got.operation.kind) == (headers, "")


@each(
    ("line", "message"),
    [
        (RequestLine(method="POST", url="https://a.test/", mcp="tools/call a"), McpMessage(method=CALL, tool="a")),
        (RequestLine(method="POST", url="https://a.test/", mcp="ping"), McpMessage(method="ping")),
        (
            RequestLine(method="POST", url="https://a.test/", mcp="notifications/initialized"),
            McpMessage(method="notifications/initialized"),
        ),
        (
            RequestLine(method="GET", url="https://a.test/", headers=(("accept", "text/event-stream"),)),
            McpMessage(method=STREAM),
        ),
        (
            RequestLine(method="DELETE", url="https://a.test/", body_size=1),
            McpMessage(doubt="a DELETE without `mcp-session-id`"),
        ),
        (RequestLine(method="POST", url="https://a.test/"), None),
    ],
)
def test_parses_mcp_messages_and_streams_as_clients_send_them(line: RequestLine, message: McpMessage | None) -> None:
    policy = replace(NOTHING, asks_messages=True)
    got = read_request(policy, line)
    assert got.message == message
    assert got.body_size == (line.body_size if line.mcp is None else got.body_size)
