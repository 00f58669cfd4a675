"""Filter the lists of tools in the responses of MCP servers: a client sees only the tools that it may call.

A response that may contain a list of tools, but that programs could read differently, is not forwarded.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

from agent_sandbox.policy import Ambiguous
from agent_sandbox.policy.http.json_body import read_plain_json
from agent_sandbox.proxy.limits import STEP_BYTES, STEP_ITEMS
from agent_sandbox.proxy.secrets.unpacking import Stage, UnpackError
from agent_sandbox.proxy.wire.message import Fields

MAX_ANSWER = 1024 * 1024  # bytes of a JSON response, or of one event
MAX_HELD = 64 * MAX_ANSWER  # bytes that all filters of a proxy hold together
MAX_OBJECTS = 50_000
MAX_TOOLS = 1_000  # the policy decides on each
TOO_LONG = f"a message of more than {MAX_ANSWER // 1024} KiB"
CROWDED = "the proxy holds too many other responses"
JSON, EVENTS = b"application/json", b"text/event-stream"
# Responses without a message: clients do not read their bodies.
EMPTY = frozenset({202, 204})
# The fields of an event, beside its data; the one without a name is a comment.
KEPT = frozenset({b"", b"event", b"id", b"retry"})
LINE_END = re.compile(rb"\r\n|\n|\r")

# Whether the client may call the tool of this name.
Shows = Callable[[str], bool]


class ToolListError(UnpackError):
    """Why a response cannot be filtered."""

    def __init__(self, why: object) -> None:
        super().__init__(f"its list of tools could not be filtered: {why}")


class BodyFilter(Stage, Protocol):
    """Changes the body of one response. `holds_head`: send nothing before the end: the body may be unreadable."""

    holds_head: bool

    def close(self) -> None:
        """Free what is held."""


def why_not_filtered(status: int, fields: Fields, why: str = "") -> str:
    """Return why a response cannot be filtered because of its head, "" if it can be, or has no message.

    `why` says why its body cannot be read, if that is known.
    """
    is_message = 200 <= status < 300 and status not in EMPTY
    if not why and is_message and _kind(fields) not in {JSON, EVENTS}:
        why = "it is neither JSON nor an event stream"
    return str(ToolListError(why)) if why else ""


def tool_filter(fields: Fields, shows: Shows, room: "Room") -> BodyFilter | None:
    """Return the filter for a response with these headers, None if it is no message."""
    match _kind(fields):
        case b"application/json":
            return JsonFilter(partial(filtered, shows=shows), room)
        case b"text/event-stream":
            return EventFilter(shows, room)
    return None


def _kind(fields: Fields) -> bytes:
    kinds = {value.partition(b";")[0].strip().lower() for name, value in fields if name.lower() == b"content-type"}
    return kinds.pop() if len(kinds) == 1 else b""


class Room:
    """The bytes that all filters of a proxy may hold together: a server could begin many long messages at once."""

    def __init__(self, size: int = MAX_HELD) -> None:
        self.left = size


class Held:
    """The bytes that one filter holds, until it is closed or dropped."""

    def __init__(self, room: Room, fail: Callable[[object], UnpackError] = ToolListError) -> None:
        self._room = room
        self._fail = fail
        self._size = 0

    def resize(self, size: int) -> None:
        """Hold `size` bytes. Raises the filter's error if they are too many."""
        if size > MAX_ANSWER:
            raise self._fail(TOO_LONG)
        if size - self._size > self._room.left:
            raise self._fail(CROWDED)
        self._room.left -= size - self._size
        self._size = size

    def close(self) -> None:
        """Give the bytes back."""
        self._room.left += self._size
        self._size = 0

    __del__ = close


class JsonFilter:
    """A response that is one JSON document: `change` returns what to forward, or raises the error of `fail`."""

    holds_head = True

    def __init__(
        self, change: Callable[[bytes], bytes], room: Room, fail: Callable[[object], UnpackError] = ToolListError
    ) -> None:
        self._change = change
        self._held = Held(room, fail)
        self._body = bytearray()

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Hold the data."""
        self._held.resize(len(self._body) + len(data))
        self._body += data
        return (b"",)

    def end(self) -> bytes:
        """Return the changed document."""
        body = bytes(self._body)
        self._held.resize(0)
        return self._change(body) if body.strip() else body

    def close(self) -> None:
        """Free the document."""
        self._held.close()
        self._body = bytearray()


class EventFilter:
    """A response that is a stream of server-sent events, each with one JSON-RPC message. Passes on whole events.

    Holds an event as bytes, because a list of its lines could take fifty times as much memory.
    """

    holds_head = False

    def __init__(self, shows: Shows, room: Room) -> None:
        self._shows = shows
        self._held = Held(room)
        self._line = bytearray()
        self._kinds: list[bytes] = []
        self._kept = bytearray()
        self._data = bytearray()  # of its lines, each with a line feed
        self._after_cr = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the events that are complete."""
        fresh = data.removeprefix(b"\n") if self._after_cr else data
        self._after_cr = data.endswith(b"\r") if data else self._after_cr
        shown, at, lines, begun = bytearray(), 0, 0, 0
        for end in LINE_END.finditer(fresh):  # not `split`: a list of short lines takes twenty times their size
            whole = bytes(self._line) + fresh[at : end.start()]
            self._line.clear()
            shown += self._take(whole)
            at, lines = end.end(), lines + 1
            if lines == STEP_ITEMS or at - begun >= STEP_BYTES:
                self._hold()
                yield bytes(shown)
                shown, lines, begun = bytearray(), 0, at
        self._line += fresh[at:]
        self._hold()
        yield bytes(shown)

    def end(self) -> bytes:
        """Drop an event that is not complete, as clients do."""
        return b""

    def close(self) -> None:
        """Free the event."""
        self._held.close()
        self._line, self._kept, self._data = bytearray(), bytearray(), bytearray()

    def _hold(self) -> None:
        self._held.resize(len(self._kept) + len(self._data) + len(self._line))

    def _take(self, line: bytes) -> bytes:
        """Take a line; return the event that it ends, if it does. Fields that clients ignore are dropped."""
        if not line:
            return self._event()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data += value + b"\n"
        elif name in KEPT:
            self._kept += b"%s: %s\n" % (name, value)
            # More than one is never the address.
            self._kinds += [value] if name == b"event" and len(self._kinds) < 2 else []
        return b""

    def _event(self) -> bytes:
        """Return the event with its message filtered."""
        kept, has_data, data, kinds = bytes(self._kept), bool(self._data), bytes(self._data[:-1]), self._kinds
        self._kept, self._data, self._kinds = bytearray(), bytearray(), []
        # In the older transport, the first event is the address for messages. No address has a brace.
        if data and (kinds != [b"endpoint"] or b"{" in data):
            data = filtered(data, self._shows)
        return b"%s%s\n" % (kept, b"data: %s\n" % data.replace(b"\n", b"\ndata: ") if has_data else b"")


def filtered(message: bytes, shows: Shows) -> bytes:
    """Return a JSON-RPC message without the tools that the client must not see, else unchanged.

    >>> filtered(b'{"result": {"tools": [{"name": "a"}, {"name": "b"}]}}', lambda name: name == "a")
    b'{"result": {"tools": [{"name": "a"}]}}'
    """
    try:
        said = read_plain_json(message, objects=MAX_OBJECTS)
        result = _only(said, "result")
        tools = _only(result, "tools") if result is not None else None
        if tools is None:
            return message
        said["result"]["tools"] = [tool for tool in _listed(tools) if shows(tool["name"])]
        return json.dumps(said, allow_nan=False).encode("ascii")
    except Ambiguous as why:
        raise ToolListError(why) from why
    except ValueError as error:  # 1e999 was read as infinity
        raise ToolListError("a number that JSON does not have") from error


def _only(said: object, key: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a key, None without it. Some clients read keys in any case."""
    if not isinstance(said, dict):
        raise Ambiguous(f"`{key}` in something that is not an object")
    if [name for name in said if name.casefold() == key] not in ([], [key]):
        raise Ambiguous(f"`{key}` in another case")
    return said.get(key)


def _listed(tools: object) -> list[dict[str, Any]]:
    if not isinstance(tools, list) or not all(isinstance(_only(tool, "name"), str) for tool in tools):
        raise Ambiguous("`tools` is not a list of tools with names")
    if len(tools) > MAX_TOOLS:
        raise Ambiguous(f"more than {MAX_TOOLS} tools")
    return tools
