from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.wire.http1_head import BadHeadError, Head, find_end, parse_head
from table_tests import each

if TYPE_CHECKING:
    from collections.abc import Callable

LIMITS = Limits(head_bytes=100, head_fields=3)


def parse(text: bytes) -> Head:
    return parse_head(text, Limits(head_fields=3))


def test_a_head_is_its_line_its_fields_and_the_body_it_promises() -> None:
    got = parse(b"POST /x?y HTTP/1.1\r\nHost:  a.test \r\nContent-Length: 12\r\nX-Empty:\r\n\r\n")
    fields = ((b"Host", b"a.test"), (b"Content-Length", b"12"), (b"X-Empty", b""))
    assert Head(method="POST", target="/x?y", version="HTTP/1.1", fields=fields, host="a.test", body=12) == got


def test_chunks_are_a_body_of_no_known_length() -> None:
    assert parse(b"POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n").body is None


def test_a_head_without_fields_has_no_host_and_no_body() -> None:
    got = parse(b"GET / HTTP/1.0\r\n\r\n")
    assert Head(method="GET", target="/", version="HTTP/1.0", fields=(), host=None, body=0) == got


def test_a_value_may_hold_bytes_that_are_no_ascii() -> None:
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
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "more than one Host header", 400),
        (b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n", "a Host header that is not ASCII", 400),
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
        (b"GET / HTTP/1.1\r\nContent-Length: 01\r\n\r\n", "a Content-Length that is not a plain number", 400),
    ],
)
def test_what_is_not_fully_understood_is_refused(head: bytes, problem: str, status: int) -> None:
    with pytest.raises(BadHeadError) as caught:
        parse(head)
    assert (problem, status) == (str(caught.value), caught.value.status)


def test_the_end_is_behind_the_empty_line() -> None:
    assert find_end(b"GET / HTTP/1.1\r\n\r\nbody\r\n\r\n", LIMITS) == 18


@pytest.mark.parametrize("data", [b"", b"GE", b"GET / HTTP/1.1\r", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_a_head_that_is_not_all_there_is_waited_for(data: bytes) -> None:
    assert find_end(data, LIMITS) == 0


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
def test_nobody_waits_for_the_end_of_what_is_wrong_already(data: bytes, problem: str, status: int) -> None:
    with pytest.raises(BadHeadError) as caught:
        find_end(data, LIMITS)
    assert (problem, status) == (str(caught.value), caught.value.status)


def test_an_unfinished_head_costs_less_to_look_at_than_one_search() -> None:
    head = b"GET / HTTP/1.1\r\nX: " + b"a" * 60_000
    bare_break = re.compile(rb"(?<!\r)\n|\r(?=[^\n])")

    def seconds(look: Callable[[], object]) -> float:
        began = time.process_time()
        for _ in range(30):
            look()
        return time.process_time() - began

    assert seconds(lambda: find_end(head, Limits())) < seconds(lambda: bare_break.search(head))


def test_too_many_fields_are_refused_before_the_head_ends() -> None:
    with pytest.raises(BadHeadError, match="more than 3 header fields"):
        find_end(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 4, LIMITS)
