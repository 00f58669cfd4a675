import json
import tracemalloc
from collections import deque
from functools import partial

import pytest

from agent_sandbox.proxy.exchange.tool_list import (
    MAX_ANSWER,
    BodyFilter,
    EventFilter,
    JsonFilter,
    Room,
    ToolListError,
    filtered,
    tool_filter,
    why_not_filtered,
)
from agent_sandbox.proxy.wire.message import Fields
from table_tests import each

TOOLS = b'{"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "a", "x": "\xc3\xa9"}, {"name": "b"}], "c": 1}}'
SHOWN = b'{"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "a", "x": "\\u00e9"}], "c": 1}}'
JSON, EVENTS = (b"Content-Type", b"application/json; charset=utf-8"), (b"content-type", b"Text/Event-Stream")


NEITHER = "its list of tools could not be filtered: it is neither JSON nor an event stream"


def shows(name: str) -> bool:
    return name == "a"


@each(
    ("message", "shown"),
    [
        (TOOLS, SHOWN),
        (b'{"result": {"tools": []}}', b'{"result": {"tools": []}}'),
        (b'{"result":{"content":[]}}', b'{"result":{"content":[]}}'),
        (
            b'{"error": "invalid_token", "realm": "x"}',
            b'{"error": "invalid_token", "realm": "x"}',
        ),
        (b'{"method":"notifications/message", "params": {}}', b'{"method":"notifications/message", "params": {}}'),
    ],
)
def test_lists_only_allowed_tools(message: bytes, shown: bytes) -> None:
    assert filtered(message, shows) == shown


@each(
    ("message", "why"),
    [
        (b"[%s]" % TOOLS, "`result` in something that is not an object"),
        (b"tools", "a body that is not JSON in UTF-8"),
        (b'{"result": {}, "result": {}}', "a duplicate key"),
        (b'{"Result": {"tools": []}}', "`result` in another case"),
        (b'{"result": {}, "re\xc5\xbfult": {}}', "`result` in another case"),
        (b'{"result": []}', "`tools` in something that is not an object"),
        (b'{"result": {"Tools": []}}', "`tools` in another case"),
        (b'{"result": {"tools": {}}}', "`tools` is not a list of tools with names"),
        (b'{"result": {"tools": [{"name": 1}]}}', "`tools` is not a list of tools with names"),
        (b'{"result": {"tools": [{"name": "a", "Name": "b"}]}}', "`name` in another case"),
        (b'{"result": {"tools": [%s]}}' % b", ".join([b'{"name": "a"}'] * 1_001), "more than 1000 tools"),
        (b'{"result": {"tools": ["a"]}}', "`name` in something that is not an object"),
        (
            b'{"result": {"tools": [{"name": "a", "x": 1e999}]}}',
            "a number that JSON does not have",
        ),
    ],
)
def test_a_message_that_clients_could_read_differently_is_not_forwarded(message: bytes, why: str) -> None:
    with pytest.raises(ToolListError) as raised:
        filtered(message, shows)
    assert str(raised.value) == f"its list of tools could not be filtered: {why}"


@each(
    ("status", "fields", "why"),
    [
        (200, (JSON,), ""),
        (200, (EVENTS,), ""),
        (200, (), NEITHER),
        (200, ((b"Content-Type", b"text/html"),), NEITHER),
        (200, (JSON, EVENTS), NEITHER),
        (202, (), ""),
        (204, (), ""),
        (405, ((b"Content-Type", b"text/html"),), ""),
    ],
)
def test_a_successful_response_with_a_body_must_be_json_or_an_event_stream(
    status: int, fields: Fields, why: str
) -> None:
    assert why_not_filtered(status, fields) == why
    assert why_not_filtered(status, fields, "so") == "its list of tools could not be filtered: so"


@each(("fields", "kind"), [((JSON,), JsonFilter), ((EVENTS,), EventFilter), ((), type(None))])
def test_a_response_is_filtered_by_its_type(fields: Fields, kind: type) -> None:
    assert type(tool_filter(fields, shows, Room())) is kind


def fed(one: BodyFilter, data: bytes, size: int) -> bytes:
    """Return what a filter forwards of data that arrives in pieces."""
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(part for piece in pieces for part in one.feed(piece)) + one.end()


def test_a_json_response_is_held_until_its_end() -> None:
    one = JsonFilter(partial(filtered, shows=shows), Room())
    assert (one.holds_head, one.feed(TOOLS), one.end()) == (True, (b"",), SHOWN)
    assert JsonFilter(partial(filtered, shows=shows), Room()).end() == b""
    with pytest.raises(ToolListError, match="a message of more than 1024 KiB"):
        fed(JsonFilter(partial(filtered, shows=shows), Room()), b" " * (MAX_ANSWER + 1), MAX_ANSWER)


STREAM = b": hello\n\nevent: message\nid: 1\ndata: %s\n\ndata\n\nretry: 5\nid: 2\ndata:\n\n" % TOOLS
PASSED = b": hello\n\nevent: message\nid: 1\ndata: %s\n\ndata: \n\nretry: 5\nid: 2\ndata: \n\n" % SHOWN


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 7, 9999])
def test_filters_events_with_any_line_end_and_chunk_size(end: bytes, size: int) -> None:
    assert fed(EventFilter(shows, Room()), STREAM.replace(b"\n", end), size) == PASSED


@each(
    ("stream", "passed"),
    [
        (b"event: endpoint\ndata: /messages?id=1\n\n", b"event: endpoint\ndata: /messages?id=1\n\n"),
        (b"event: endpoint\ndata: %s\n\n" % TOOLS, b"event: endpoint\ndata: %s\n\n" % SHOWN),
        (b'data: {"result":\ndata: {"tools": [{"name": "b"}]}}\n\n', b'data: {"result": {"tools": []}}\n\n'),
        (b'data: {"a":\ndata: 1}\n\n', b'data: {"a":\ndata: 1}\n\n'),
        (b"\xef\xbb\xbfdata: %s\n\n" % TOOLS, b"\n"),
        (b"data:%s" % TOOLS, b""),
        (b"", b""),
    ],
)
def test_forwards_an_event_as_clients_read_it(stream: bytes, passed: bytes) -> None:
    assert fed(EventFilter(shows, Room()), stream, 9999) == passed


@pytest.mark.parametrize(
    "stream",
    [
        b"data: x\n\n",
        b"event: endpoint\nevent: message\ndata: /x\n\n",
        b"event: message\ndata: [%s]\n\n" % TOOLS,
        b"data: " + b" " * MAX_ANSWER,
        b"data: %s\n" % (b" " * 600_000) * 2,
    ],
)
def test_a_stream_ends_where_an_event_cannot_be_filtered(stream: bytes) -> None:
    one = EventFilter(shows, Room())
    assert not one.holds_head
    with pytest.raises(ToolListError):
        fed(one, stream, 9999)


def test_escaped_newlines_in_an_event_do_not_become_lines() -> None:
    said = json.dumps({"result": {"tools": [{"name": "a", "text": "x\n\ndata: y"}]}}).encode()
    assert fed(EventFilter(shows, Room()), b"data: %s\n\n" % said, 9999) == b"data: %s\n\n" % said


@pytest.mark.parametrize("line", [b"a\n", b":\n", b"id\n", b"data\n", b"event\n", b"data:x\n", b"data:{\r"])
def test_an_event_of_short_lines_takes_what_is_counted_for_it(line: bytes) -> None:
    room = Room()
    one, piece, before = EventFilter(shows, room), line * 20_000, room.left
    deque(EventFilter(shows, Room()).feed(piece), maxlen=0)  # so that what measures branches has seen them
    tracemalloc.start()
    deque(one.feed(piece), maxlen=0)
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    counted = before - room.left
    assert held < 1.2 * counted + 2_000
    assert most < 4 * len(piece)


def made(kind: tuple[bytes, bytes], room: Room) -> BodyFilter:
    found = tool_filter((kind,), shows, room)
    assert found
    return found


@each(("kind", "whole"), [(JSON, b"{}"), (EVENTS, b"data: {}\n\n")])
def test_all_filters_share_one_limit_of_held_bytes(kind: tuple[bytes, bytes], whole: bytes) -> None:
    room = Room(100)
    first = made(kind, room)
    list(first.feed(b"data:" * 15))
    with pytest.raises(ToolListError, match="the proxy holds too many other responses"):
        list(made(kind, room).feed(b"data:" * 15))
    first.close()
    first.close()
    second, third = made(kind, room), made(kind, room)
    list(second.feed(b"data:" * 15))
    # A forwarded message is not held.
    assert (b"".join(third.feed(whole)) + third.end(), room.left) == (whole, 25)
