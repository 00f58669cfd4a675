import re
import time
from collections.abc import Callable

import pytest

from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.http1_head import (
    BadHeadError,
    BodyEnd,
    RequestHead,
    ResponseHead,
    Target,
    check_response_start,
    find_request_end,
    parse_request,
    parse_response,
    split_target,
)
from table_tests import each

LIMITS = Limits(head_bytes=100, head_fields=3)
TUNNEL = Tunnel(client="", carries=Carries.TLS, host="a.test", port=443)
PROXY = Tunnel(client="", carries=Carries.PROXY)


def parse(text: bytes) -> RequestHead:
    return parse_request(text, Limits(head_fields=3))


def test_parses_the_request_line_fields_and_body_length_of_a_head() -> None:
    got = parse(b"POST /x?y HTTP/1.1\r\nHost:  a.test \r\nContent-Length: 12\r\nX-Empty:\r\n\r\n")
    fields = ((b"Host", b"a.test"), (b"Content-Length", b"12"), (b"X-Empty", b""))
    assert RequestHead(method="POST", target="/x?y", version="HTTP/1.1", fields=fields, host="a.test", body=12) == got


def test_parses_a_chunked_transfer_encoding() -> None:
    assert parse(b"POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n").body is BodyEnd.CHUNKED


def test_a_head_without_fields_has_no_host_and_no_body() -> None:
    got = parse(b"GET / HTTP/1.0\r\n\r\n")
    assert RequestHead(method="GET", target="/", version="HTTP/1.0", fields=(), host=None, body=0) == got


def test_accepts_non_ascii_bytes_in_a_field_value() -> None:
    assert parse(b"GET / HTTP/1.1\r\nX: caf\xc3\xa9 au lait\r\n\r\n").fields == ((b"X", b"caf\xc3\xa9 au lait"),)


@each(
    ("head", "problem", "status"),
    [
        (b"GET / HTTP/1.1\nHost: a\r\n\r\n", "a bare CR or LF in the request head", 400),
        (b"GET / HTTP/1.1\r\nX: a\rb\r\n\r\n", "a bare CR or LF in the request head", 400),
        (b"GET / HTTP/3.0\r\n\r\n", "the request line is not `METHOD target HTTP/1.1`", 400),
        (b"G" * 33 + b" / HTTP/1.1\r\n\r\n", "the method is too long", 400),
        (b"GET / HTTP/1.1\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n\r\n", "more than 3 header fields", 431),
        (b"GET / HTTP/1.1\r\nA: 1\r\n folded\r\n\r\n", "a folded header line", 400),
        (b"GET / HTTP/1.1\r\nA : 1\r\n\r\n", "a malformed header line", 400),
        (
            b"POST / HTTP/1.1\r\nTransfer_Encoding: chunked\r\n\r\n",
            "a header named Transfer_Encoding, which some programs read as Transfer-Encoding",
            400,
        ),
        (
            b"POST / HTTP/1.1\r\ncontent.length: 4\r\n\r\n",
            "a header named content.length, which some programs read as Content-Length",
            400,
        ),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "more than one Host header", 400),
        (b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n", "the Host header is not ASCII", 400),
        (
            b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "both Content-Length and Transfer-Encoding",
            400,
        ),
        (
            b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "more than one Content-Length or Transfer-Encoding",
            400,
        ),
        (b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "a Transfer-Encoding other than `chunked`", 400),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", "a Transfer-Encoding other than `chunked`", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 01\r\n\r\n", "the Content-Length is not a plain number", 400),
        (
            b"GET / HTTP/1.1\r\nContent-Length: 1\t\r\n\r\n",
            "a tab after the value of Content-Length or Transfer-Encoding",
            400,
        ),
        (
            b"GET / HTTP/1.1\r\ntransfer-encoding: chunked\t \r\n\r\n",
            "a tab after the value of Content-Length or Transfer-Encoding",
            400,
        ),
    ],
)
def test_rejects_malformed_or_ambiguous_request_heads(head: bytes, problem: str, status: int) -> None:
    with pytest.raises(BadHeadError) as caught:
        parse(head)
    assert (problem, status) == (str(caught.value), caught.value.status)


def test_find_request_end_returns_the_position_after_the_empty_line() -> None:
    assert find_request_end(b"GET / HTTP/1.1\r\n\r\nbody\r\n\r\n", LIMITS) == 18


@pytest.mark.parametrize("data", [b"", b"GE", b"GET / HTTP/1.1\r", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_find_request_end_returns_zero_for_an_incomplete_head(data: bytes) -> None:
    assert find_request_end(data, LIMITS) == 0


@pytest.mark.parametrize(
    ("data", "problem", "status"),
    [
        (b"\r\nGET", "the request does not begin with a method", 400),
        (b"\x16\x03", "the request does not begin with a method", 400),
        (b"GET / HTTP/1.1\n", "a bare CR or LF in the request head", 400),
        (b"SSH-2.0-x\r\n", "the request line is not `METHOD target HTTP/1.1`", 400),
        (b"G" * 33 + b" / HTTP/1.1\r\n", "the method is too long", 400),
        (b"GET /" + b"x" * 100, "the request head is larger than 100 bytes", 431),
    ],
)
def test_find_request_end_rejects_malformed_heads_before_they_are_complete(
    data: bytes, problem: str, status: int
) -> None:
    with pytest.raises(BadHeadError) as caught:
        find_request_end(data, LIMITS)
    assert (problem, status) == (str(caught.value), caught.value.status)


def test_checking_an_incomplete_head_costs_less_than_one_regex_search() -> None:
    head = b"GET / HTTP/1.1\r\nX: " + b"a" * 60_000
    bare_break = re.compile(rb"(?<!\r)\n|\r(?=[^\n])")

    def seconds(look: Callable[[], object]) -> float:
        began = time.process_time()
        for _ in range(30):
            look()
        return time.process_time() - began

    assert seconds(lambda: find_request_end(head, Limits())) < seconds(lambda: bare_break.search(head))


def test_rejects_too_many_fields_before_the_head_ends() -> None:
    with pytest.raises(BadHeadError, match="more than 3 header fields"):
        find_request_end(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 4, LIMITS)


def response(*lines: bytes, status: bytes = b"200 OK") -> ResponseHead:
    head = b"".join(line + b"\r\n" for line in (b"HTTP/1.1 " + status, *lines))
    return parse_response(head + b"\r\n", Limits())


def test_parses_the_status_line_and_fields_of_a_response_head() -> None:
    got = response(b"Content-Length:  2 ", b"X:", status=b"404 Not \xff")
    fields = ((b"Content-Length", b"2"), (b"X", b""))
    assert got == ResponseHead(version="HTTP/1.1", status=404, reason=b"Not \xff", fields=fields)


@each(
    ("head", "method", "body"),
    [
        (response(), "GET", BodyEnd.CLOSE),
        (response(b"Content-Length: 2"), "GET", 2),
        (response(b"Transfer-Encoding: chunked"), "GET", BodyEnd.CHUNKED),
        (response(b"Content-Length: 2"), "HEAD", 0),
        (response(b"Content-Length: 2"), "head", 0),
        (response(b"Content-Length: 2", status=b"101 Switching Protocols"), "GET", 0),
        (response(b"Content-Length: 2", status=b"204"), "GET", 0),
        (response(b"Transfer-Encoding: chunked", status=b"304"), "GET", 0),
        (response(status=b"205"), "GET", BodyEnd.CLOSE),
    ],
)
def test_the_status_the_method_and_the_fields_decide_the_body_length_of_a_response(
    head: ResponseHead, method: str, body: int | BodyEnd
) -> None:
    assert head.body(method) is body


@each(("status", "interim"), [(b"100", True), (b"103 Early Hints", True), (b"101", False), (b"200", False)])
def test_every_1xx_status_except_101_is_interim(status: bytes, interim: bool) -> None:  # noqa: FBT001
    assert response(status=status).interim is interim


@each(
    ("status", "kept"),
    [
        (b"101", ["X"]),
        (b"200", ["Content-Length", "Transfer-Encoding", "X"]),
        (b"204", ["X"]),
        (b"304", ["Content-Length", "X"]),
    ],
)
def test_does_not_forward_fields_that_declare_a_body_if_the_response_has_none(status: bytes, kept: list[str]) -> None:
    head = response(b"Content-Length: 2", b"Transfer-Encoding: chunked", b"X: y", status=status)
    assert [name.decode() for name, _ in head.forwarded] == kept


@pytest.mark.parametrize(
    "data", [b"", b"H", b"HTTP/1.", b"HTTP/1.0 4", b"HTTP/1.1 200\r", b"HTTP/1.1 200 OK\r\nX: y\r\n"]
)
def test_accepts_every_incomplete_start_of_a_response(data: bytes) -> None:
    check_response_start(data, Limits())


@each(
    ("data", "problem"),
    [
        (b"h", "it is not HTTP/1"),
        (b"\r\n", "it is not HTTP/1"),
        (b"HTTP/2", "it is not HTTP/1"),
        (b"HTTP/1.1 2x", "it is not HTTP/1"),
        (b"HTTP/1.1 200x", "it is not HTTP/1"),
        (b"HTTP/1.1 200\n", "a bare CR or LF in the response head"),
        (b"HTTP/1.1 200 \rx", "a bare CR or LF in the response head"),
        (b"HTTP/1.1 200 " + b"x" * 88, "its head is larger than 100 bytes"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 4, "more than 3 header fields"),
    ],
)
def test_a_malformed_response_is_rejected_before_its_head_ends(data: bytes, problem: str) -> None:
    with pytest.raises(BadHeadError) as caught:
        check_response_start(data, Limits(response_head_bytes=100, response_head_fields=3))
    assert str(caught.value) == problem


@pytest.mark.parametrize("status", [b"200 O\0K", b"200 O\x7fK"])
def test_a_reason_with_control_characters_is_rejected(status: bytes) -> None:
    with pytest.raises(BadHeadError, match=r"^the status line is not `HTTP/1\.1 status reason`$"):
        response(status=status)


def split(target: str, tunnel: Tunnel, *, method: str = "GET", host: str = "Host: a.test\r\n") -> Target:
    return split_target(parse_request(f"{method} {target} HTTP/1.1\r\n{host}\r\n".encode(), Limits()), tunnel)


def test_a_tunnel_accepts_a_path() -> None:
    assert split("/x?y", TUNNEL) == Target(path="/x?y")


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("http://A.test/x?y", Target(host="a.test", port=80, path="/x?y")),
        ("HTTP://a.test:8080", Target(host="a.test", port=8080, path="/")),
        ("http://a.test?q", Target(host="a.test", port=80, path="/?q")),
        ("http://[::1]:81/", Target(host="::1", port=81, path="/")),
    ],
)
def test_the_explicit_proxy_accepts_a_full_http_url(target: str, wanted: Target) -> None:
    assert split(target, PROXY) == wanted


@each(
    ("target", "tunnel", "problem"),
    [
        (
            "http://a.test/",
            TUNNEL,
            (
                "a full URL, as for another proxy, but the sandbox's proxy is the only one: "
                "unset the variable (such as http_proxy) or the option that names the other"
            ),
        ),
        ("*", TUNNEL, "the request target '*' is not a path"),
        ("/", PROXY, "this is a proxy: send CONNECT, or a request with a full http:// URL"),
        ("https://a.test/", PROXY, "the proxy accepts only http:// URLs here; use CONNECT for https"),
        ("http://u@a.test/", PROXY, "the proxy accepts only http:// URLs here; use CONNECT for https"),
        ("http://127.1/", PROXY, "ambiguous: an address that programs read differently: '127.1'"),
    ],
)
def test_rejects_any_other_target(target: str, tunnel: Tunnel, problem: str) -> None:
    with pytest.raises(BadHeadError) as caught:
        split(target, tunnel)
    assert problem == str(caught.value)


def test_rejects_a_second_connect_and_a_request_without_a_host_header() -> None:
    with pytest.raises(BadHeadError, match="CONNECT is valid only as the first request to the proxy"):
        split("a.test:443", PROXY, method="CONNECT")
    with pytest.raises(BadHeadError, match="CONNECT, as for another proxy, but the sandbox's proxy is the only one"):
        split("a.test:443", TUNNEL, method="CONNECT")
    with pytest.raises(BadHeadError, match="no Host header"):
        split("/", TUNNEL, host="")
