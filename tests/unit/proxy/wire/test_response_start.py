import pytest

from agent_sandbox.proxy.wire.body_buffer import BodyBuffer
from agent_sandbox.proxy.wire.http1_head import BadHeadError
from agent_sandbox.proxy.wire.response_start import LIMITS, ResponseStart

OK = b"HTTP/1.1 200 OK\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
TOO_LARGE = r"^its head is larger than 262144 bytes\Z"


def test_skips_interim_responses_and_leaves_the_body_in_the_buffer() -> None:
    buffer, start = BodyBuffer(), ResponseStart()
    buffer += HINTS
    assert start.read(buffer) is None
    buffer += OK[:5]
    assert start.read(buffer) is None
    buffer += OK[5:] + b"body"
    head = start.read(buffer)
    assert head is not None
    assert (head.status, bytes(buffer)) == (200, b"body")


@pytest.mark.parametrize("rest", [HINTS, b"HTTP/1.1 200 OK\r\nX: " + b"x" * 50])
def test_interim_responses_count_towards_the_limit_of_the_head(rest: bytes) -> None:
    buffer, start = BodyBuffer(), ResponseStart()
    buffer += HINTS * (LIMITS.response_head_bytes // len(HINTS))
    assert start.read(buffer) is None
    buffer += rest
    with pytest.raises(BadHeadError, match=TOO_LARGE):
        start.read(buffer)


def test_rejects_bytes_that_are_not_http_at_once() -> None:
    buffer = BodyBuffer()
    buffer += b"SSH-2.0"
    with pytest.raises(BadHeadError, match=r"^it is not HTTP/1\Z"):
        ResponseStart().read(buffer)
