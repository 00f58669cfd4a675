from h11._receivebuffer import ReceiveBuffer

from agent_sandbox.proxy.wire.body_buffer import BodyBuffer
from table_tests import each


@each("count", [0, 1, 4, 5, 6])
@each("content", [b"", b"a\r\nbc"])
def test_extracts_and_keeps_the_same_bytes_as_h11s_buffer(content: bytes, count: int) -> None:
    ours, theirs = holding(BodyBuffer(), content), holding(ReceiveBuffer(), content)
    assert ours.maybe_extract_at_most(count) == theirs.maybe_extract_at_most(count)
    assert bytes(ours) == bytes(theirs)


def test_does_not_copy_content_that_is_extracted_completely() -> None:
    buffer = holding(BodyBuffer(), b"body")
    held = buffer._data
    assert buffer.maybe_extract_at_most(4) is held


def test_returns_a_single_piece_of_content_as_the_same_object() -> None:
    content = b"as it came"
    taken: object = holding(BodyBuffer(), content).maybe_extract_at_most(100)
    assert taken is content


@each("first", [b"ab", b"a\r\n"])
@each("taken", [0, 1, 2])
def test_appends_new_data_to_the_remaining_data_like_h11s_buffer(first: bytes, taken: int) -> None:
    ours, theirs = holding(BodyBuffer(), first), holding(ReceiveBuffer(), first)
    for buffer in (ours, theirs):
        buffer.maybe_extract_at_most(taken)
        for more in (b"c", b"d\r\n"):
            holding(buffer, more)
    assert bytes(ours) == bytes(theirs)
    assert ours.maybe_extract_next_line() == theirs.maybe_extract_next_line()


def test_finds_a_line_in_data_that_arrives_after_everything_was_extracted() -> None:
    buffer = holding(BodyBuffer(), b"no line yet")
    assert buffer.maybe_extract_next_line() is None
    buffer.maybe_extract_at_most(100)
    assert holding(buffer, b"1\r\n").maybe_extract_next_line() == bytearray(b"1\r\n")


def test_head_end_returns_the_end_of_a_complete_head_or_zero() -> None:
    whole, begun = BodyBuffer(), BodyBuffer()
    holding(whole, b"HTTP/1.1 103\r\n\r\nrest")
    holding(begun, b"HTTP/1.1 103\r\n")
    assert (whole.head_end(), begun.head_end()) == (16, 0)


def holding(buffer: ReceiveBuffer, content: bytes) -> ReceiveBuffer:
    buffer += content
    return buffer
