import h11
import pytest
from h11._receivebuffer import ReceiveBuffer

from agent_sandbox.proxy.wire.http1_chunks import LIMITS, ChunkReader, TrailerDropper
from table_tests import each


def read(*pieces: bytes, line_bytes: int = 20) -> tuple[bytes, bool, bytes]:
    """Feed the pieces; return the body, whether it ended, and what was left over."""
    reader, buffer = ChunkReader(line_bytes=line_bytes), ReceiveBuffer()
    body, ended = b"", False
    for piece in pieces:
        buffer += piece
        while not ended and (event := reader(buffer)) is not None:
            if isinstance(event, h11.EndOfMessage):
                ended = True
            else:
                body += event.data
    return body, ended, bytes(buffer)


def test_joins_chunks_into_a_body_and_leaves_the_bytes_after_it() -> None:
    assert read(b"5\r\nhello\r\nA;x=y\r\n, wide wor\r\n0\r\n\r\nGET /") == (b"hello, wide wor", True, b"GET /")


def test_reads_chunks_that_arrive_byte_by_byte() -> None:
    data = b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
    assert read(*(data[at : at + 1] for at in range(len(data)))) == (b"hello!", True, b"")


def test_reads_chunks_that_arrive_together_as_one_piece_of_data() -> None:
    reader, buffer = ChunkReader(line_bytes=20), ReceiveBuffer()
    buffer += b"1\r\na\r\n1\r\nb\r\n5\r\nhel"
    assert [reader(buffer), reader(buffer)] == [h11.Data(data=b"abhel"), None]


@each("data", [b"", b"5", b"5\r\nhel", b"5\r\nhello", b"5\r\nhello\r\n", b"0\r\n", b"0\r\n\r"])
def test_an_incomplete_body_does_not_end(data: bytes) -> None:
    assert not read(data)[1]


@each(
    ("data", "problem"),
    [
        (b"x" * 21, "a chunk size line that is too long"),
        (b"5;" + b"x" * 20 + b"\r\n", "a malformed chunk size line"),
        (b"0x5\r\n", "a malformed chunk size line"),
        (b"\r\n", "a malformed chunk size line"),
        (b"5\nhello\r\n", "a malformed chunk size line"),
        (b"1\r\nhello", "a chunk that does not end with CRLF, or trailers after the last one"),
        (b"0\r\nX: y\r\n\r\n", "a chunk that does not end with CRLF, or trailers after the last one"),
    ],
)
def test_rejects_malformed_chunks_and_trailers(data: bytes, problem: str) -> None:
    with pytest.raises(h11.RemoteProtocolError) as caught:
        read(data)
    assert problem == str(caught.value)


def test_rejects_a_connection_that_closes_within_a_chunked_body() -> None:
    with pytest.raises(h11.RemoteProtocolError, match="closed within a chunked body"):
        ChunkReader(line_bytes=20).read_eof()


def drop(*pieces: bytes) -> tuple[bytes, bool, bytes]:
    """Feed the pieces of a response; return the body, whether it ended, and what was left over."""
    reader, buffer = TrailerDropper(), ReceiveBuffer()
    body, ended = b"", False
    for piece in pieces:
        buffer += piece
        while not ended and (event := reader(buffer)) is not None:
            ended = isinstance(event, h11.EndOfMessage)
            body += event.data if isinstance(event, h11.Data) else b""
    return body, ended, bytes(buffer)


def test_drops_trailers_of_a_response() -> None:
    assert drop(b"5\r\nhel", b"lo\r\n1\r\n!\r\n0\r\nX: y\r\n", b"\r\nHTTP") == (b"hello!", True, b"HTTP")


@each("endless", [b"1;x=", b"0\r\nX: "])
def test_limits_the_chunk_size_line_and_the_trailers_of_a_response(endless: bytes) -> None:
    problem = r"^a chunk size line or trailers of more than 262144 bytes\Z"
    with pytest.raises(h11.RemoteProtocolError, match=problem):
        drop(endless + b"x" * (LIMITS.response_head_bytes + 1))
