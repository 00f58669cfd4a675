from typing import Any

import pytest

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.bounds import MAX_TARGET
from agent_sandbox.policy.http.request import Request, parse_request
from table_tests import each

PLAIN: dict[str, Any] = {"scheme": "https", "host": "allowed.test", "port": 443, "method": "GET", "target": "/api/x"}


def test_normalises_host_and_path() -> None:
    got = parse_request(
        scheme="https", host="ALLOWED.test.", port=443, method="GET", target="/%61pi/caf%c3%a9?q=%61#"[:-1]
    )
    expected = Request(
        scheme="https", host="allowed.test", port=443, method="GET", path="/api/caf%C3%A9", query="q=%61", headers=()
    )
    assert got == expected


def test_keeps_headers_and_body_size_unchanged() -> None:
    got = parse_request(**PLAIN, headers=(("Accept", "*/*"),), body_size=3)
    assert (got.headers, got.body_size) == ((("Accept", "*/*"),), 3)
    assert parse_request(**PLAIN).body_size is None


@pytest.mark.parametrize(("target", "expected"), [("", "/"), ("?x=1", "/?x=1"), ("/a?", "/a"), ("/a?b?c", "/a?b?c")])
def test_the_target_is_the_normalised_path_and_query(target: str, expected: str) -> None:
    assert parse_request(**PLAIN | {"target": target}).target == expected


@pytest.mark.parametrize(
    ("changes", "url"),
    [
        ({}, "https://allowed.test/api/x"),
        ({"port": 8443}, "https://allowed.test:8443/api/x"),
        ({"scheme": "http"}, "http://allowed.test:443/api/x"),
        ({"host": "2001:db8::1", "target": "/?q"}, "https://[2001:db8::1]/?q"),
    ],
)
def test_builds_the_full_url(changes: dict[str, Any], url: str) -> None:
    assert parse_request(**PLAIN | changes).url == url


@each(
    ("changes", "doubt"),
    [
        ({"scheme": "HTTPS"}, "not an HTTP scheme: 'HTTPS'"),
        ({"scheme": "ftp"}, "not an HTTP scheme: 'ftp'"),
        ({"port": 0}, "not a port: 0"),
        ({"port": 65536}, "not a port: 65536"),
        ({"host": "127.1"}, "an address that programs read differently: '127.1'"),
        ({"method": "get"}, "not a method: 'get'"),
        ({"target": "*"}, "the path does not start with `/`"),
        ({"target": "https://evil.test/"}, "the path does not start with `/`"),
        ({"target": "/a?%00b=1"}, "the query contains a character that is not allowed in a URL, a NUL, or a fragment"),
        ({"target": "/a?b#c"}, "the query contains a character that is not allowed in a URL, a NUL, or a fragment"),
        ({"target": "/a?b c"}, "the query contains a character that is not allowed in a URL, a NUL, or a fragment"),
        ({"target": "/a?b\n"}, "the query contains a character that is not allowed in a URL, a NUL, or a fragment"),
        ({"target": "/a?é"}, "the query contains a character that is not allowed in a URL, a NUL, or a fragment"),
        (
            {"target": "/a?_method=delete"},
            "the query names another method, DELETE, which some servers would use instead",
        ),
        (
            {"target": "/@scope%2fname"},
            "the path contains an encoded slash, which an entry allows with `encoded_slash: true`",
        ),
        ({"target": "/" + "a" * MAX_TARGET}, "the target longer than 32768 characters"),
    ],
)
def test_a_request_that_can_be_read_in_two_ways_is_ambiguous(changes: dict[str, Any], doubt: str) -> None:
    with pytest.raises(Ambiguous) as raised:
        parse_request(**PLAIN | changes)
    assert str(raised.value) == doubt


def test_accepts_an_encoded_slash_with_the_option_encoded_slash() -> None:
    assert parse_request(**PLAIN | {"target": "/@scope%2fname"}, encoded_slash=True).path == "/@scope%2Fname"
