import pytest

from agent_sandbox.proxy.secrets.redactable import (
    asks_to_hide,
    coding_of,
    safe_reason,
    unpacked,
    unquoted,
    why_unreadable,
)
from agent_sandbox.proxy.secrets.redaction import NO_ECHOES, Echoes

PACKED, SIGNS = "it is compressed", "its charset is not ASCII-compatible"


@pytest.mark.parametrize(
    ("name", "value", "hides"),
    [
        (b"Accept_Encoding", b"br", True),
        (b"Request-Range", b"bytes=0-3", True),
        (b"accept-charset", b"utf-16", True),
        (b"grpc-accept-encoding", b"gzip", True),
        (b"TE", b"gzip", True),
        (b"te", b"trailers, deflate", True),
        (b"te", b" Trailers", False),
        (b"accept", b"text/plain", False),
    ],
)
def test_detects_request_headers_that_would_hide_an_echo(name: bytes, value: bytes, *, hides: bool) -> None:
    assert asks_to_hide(name, value) is hides


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        (b"Content-Encoding", b"Identity ", ""),
        (b"Content_Encoding", b" GZip", ""),
        (b"content-encoding", b"zstd", ""),
        (b"content-encoding", b"compress", PACKED),
        (b"content-encoding", b"identity, br", PACKED),
        (b"Transfer-Encoding", b"chunked", ""),
        (b"Transfer-Encoding", b"gzip, chunked", PACKED),
        (b"grpc-encoding", b"gzip", PACKED),
        (b"IM", b"gzip", PACKED),
        (b"Content-Type", b"application/json", ""),
        (b"Content-Type", b'text/html; charset="UTF-8"', ""),
        (b"Content-Type", b"text/html; charset=shift_jis", ""),
        (b"Content-Type", b"application/octet-stream; charset=binary", ""),
        (b"Content-Type", b"text/html; Charset = utf-16le", SIGNS),
        (b"Content-Type", b"text/html; charset=utf-8; charset=utf-7", SIGNS),
        (b"Content-Type", b"text/html; charset=cp037", SIGNS),
        (b"Content-Type", b"text/html; charset=hex", SIGNS),
        (b"Content-Type", b"text/html; charset=nobodys", SIGNS),
        (b"Content-Type", b"text/html; charset=\xff", SIGNS),
        (b"X-Content-Type", b"text/html; charset=cp037", ""),
    ],
)
def test_explains_why_a_response_cannot_be_searched(name: bytes, value: bytes, why: str) -> None:
    assert why_unreadable(((b"a", b"b"), (name, value))) == why


def test_a_response_that_is_compressed_twice_is_not_readable() -> None:
    fields = ((b"Content-Encoding", b"gzip"), (b"Content-Encoding", b"br"))
    assert (coding_of(fields), why_unreadable(fields)) == (b"", PACKED)
    assert why_unreadable(((b"Content-Encoding", b"gzip"), (b"grpc-encoding", b"gzip"))) == PACKED


def test_headers_about_the_compressed_body_are_removed() -> None:
    fields = ((b"A", b"b"), (b"Content_Encoding", b"gzip"), (b"content-length", b"5"), (b"Digest", b"x"))
    assert (coding_of(fields), unpacked(fields)) == (b"gzip", ((b"A", b"b"),))


@pytest.mark.parametrize("reason", ["no header: b'x'", 'bytearray(b"x")', "<ConnectionTerminated additional_data:00>"])
def test_hides_reasons_that_quote_a_response_with_a_possible_secret(reason: str) -> None:
    echoes = Echoes([b"secret"])
    assert safe_reason(echoes, reason) == "the details are hidden, because they could contain the injected secret"
    assert safe_reason(NO_ECHOES, reason) == reason
    assert safe_reason(echoes, "server closed connection") == "server closed connection"


@pytest.mark.parametrize(
    "quoted", [": b'x'", ' bytearray(b"x")', ": <ConnectionTerminated additional_data:00>\n'x'", ""]
)
def test_unquoted_cuts_a_reason_before_its_quotation(quoted: str) -> None:
    assert unquoted(f"Invalid web{quoted}") == "Invalid web"
