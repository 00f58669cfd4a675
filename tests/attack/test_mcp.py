"""MCP by a list of tools: only listed tools are shown and can be called, however a message is framed."""

import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from capture_server import ok
from http2client import Http2Client, fields
from proxy_pair import HURRY, Pair, start_pair
from proxy_stand import get, read_answer
from table_tests import each

POLICY = """\
version: 1
domains:
  - a.wild.test
  - host: allowed.test
    rules:
      - {path: {exact: /mcp}, schemes: [https], mcp: {tools: [search, read_*]}}
"""
JSON = "Content-Type: application/json"
ACCEPT = "Accept: application/json, text/event-stream"
EVENTS = b"Content-Type: text/event-stream"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy whose policy has an MCP rule."""
    with start_pair(tmp_path_factory.mktemp("mcp"), POLICY, sabotage=HURRY) as pair:
        yield pair


@pytest.fixture
def pair(started: Pair) -> Pair:
    """The same, with its policy and empty records."""
    if started.proxy.policy_file.read_text() != POLICY:
        started.proxy.reload(POLICY)
    started.forget()
    started.server.answers.clear()
    return started


def rpc(method: str, /, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, **({"params": params} if params else {})}).encode()


def post(body: bytes, *more: str, path: str = "/mcp", kind: str = JSON) -> bytes:
    said = (*filter(None, [kind]), ACCEPT, f"Content-Length: {len(body)}", *more)
    return get(path, "allowed.test", *said, method="POST") + body


SEARCH, DELETE = rpc("tools/call", name="search", arguments={"q": "x"}), rpc("tools/call", name="delete", arguments={})
LISTING = rpc("tools/list")
TOOLS = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "search"}, {"name": "delete"}, {"name": "read_a"}]}}
SHOWN = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "search"}, {"name": "read_a"}]}}

PASSES = {
    "tools/call search": SEARCH,
    "tools/call read_file": rpc("tools/call", name="read_file", _meta={"progressToken": 1}),
    "initialize": rpc("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "x"}),
    "notifications/initialized": b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
    "ping": rpc("ping"),
    "answer": b'{"jsonrpc": "2.0", "id": 7, "result": {}}',
}


@each("name", PASSES)
def test_listed_messages_pass_byte_for_byte(pair: Pair, name: str) -> None:
    assert pair.proxy.ask("allowed.test", post(PASSES[name])).startswith(b"HTTP/1.1 200")
    assert pair.server.requests[-1].body == PASSES[name]
    line = pair.proxy.line(path="/mcp", mcp=name)
    assert (line["decision"], line["rule"], line["bytes_out"]) == ("allow", "policy.yaml:6", len(PASSES[name]))


def call_twice(first: str, second: str) -> bytes:
    return b'{"jsonrpc": "2.0", "id": 1, %s, %s}' % (first.encode(), second.encode())


DENIED = {
    "another tool": post(DELETE),
    "a tool in another case": post(rpc("tools/call", name="Search")),
    "a star for a name": post(rpc("tools/call", name="read_*")),
    "no name": post(rpc("tools/call", arguments={})),
    "a name that is a list": post(rpc("tools/call", name=["search"])),
    "a name and a name in another case": post(rpc("tools/call", name="search", Name="delete")),
    "a method twice": post(call_twice('"method": "ping"', '"method": "tools/call", "params": {"name": "delete"}')),
    "a method in another case": post(
        call_twice('"method": "ping", "params": {"name": "delete"}', '"Method": "tools/call"')
    ),
    "a name twice": post(call_twice('"method": "tools/call"', '"params": {"name": "search", "name": "delete"}')),
    "a name twice, escaped": post(
        call_twice('"method": "tools/call"', '"params": {"name": "search", "n\\u0061me": "delete"}')
    ),
    "a batch": post(b"[" + SEARCH + b"," + DELETE + b"]"),
    "a batch of one": post(b"[" + SEARCH + b"]"),
    "behind the end": post(SEARCH + b"\n" + DELETE),
    "a mark in front": post(b"\xef\xbb\xbf" + SEARCH),
    "another encoding": post(SEARCH.decode().encode("utf-16")),
    "packed": post(gzip.compress(SEARCH), "Content-Encoding: gzip"),
    "said to be packed": post(SEARCH, "Content_Encoding: gzip"),
    "a form": post(SEARCH, kind="Content-Type: multipart/form-data; boundary=x"),
    "two kinds": post(SEARCH, "Content-Type: text/plain"),
    "another charset": post(SEARCH, kind=f"{JSON}; charset=utf-7"),
    "no kind": post(SEARCH, kind=""),
    "another version": post(SEARCH.replace(b"2.0", b"1.0")),
    "no id": post(SEARCH.replace(b'"id": 1, ', b"")),
    "an id that is null": post(SEARCH.replace(b'"id": 1', b'"id": null')),
    "an id that is true": post(SEARCH.replace(b'"id": 1', b'"id": true')),
    "a notification with an id": post(rpc("notifications/initialized")),
    "a notification that calls": post(b'{"jsonrpc": "2.0", "method": "notifications/tools/call"}'),
    "an unknown method": post(rpc("tools/delete")),
    "a method with the name that the log gives a stream": post(rpc("stream")),
    "a method with the name that the log gives an answer": post(rpc("answer")),
    "prompts": post(rpc("prompts/get", name="x")),
    "resources": post(rpc("resources/read", uri="file:///etc/passwd")),
    "sampling": post(rpc("sampling/createMessage")),
    "an answer to the server": post(b'{"jsonrpc": "2.0", "id": 7, "result": {"action": "accept"}}'),
    "an answer in a call": post(rpc("tools/call", name="search", inputResponses={"a": {"action": "accept"}})),
    "a header that names another tool": post(SEARCH, "Mcp-Method: tools/call", "Mcp-Name: delete"),
    "a header that names another method": post(rpc("ping"), "Mcp-Method: tools/call", "Mcp-Name: delete"),
    "a query that calls": post(SEARCH, path="/mcp?method=tools/call&params=x"),
    "a query that calls with nested keys": post(SEARCH, path="/mcp?params%5Barguments%5D%5Bq%5D=delete"),
    "a query that calls, by GET": get("/mcp?me%74hod=tools/call", "allowed.test", "Accept: text/event-stream"),
    "a GET for a page": get("/mcp", "allowed.test", "Accept: text/html"),
    "a GET with a body": get("/mcp", "allowed.test", ACCEPT, f"Content-Length: {len(DELETE)}") + DELETE,
    "a GET with a body in chunks": get("/mcp", "allowed.test", ACCEPT, "Transfer-Encoding: chunked")
    + b"%x\r\n%s\r\n0\r\n\r\n" % (len(DELETE), DELETE),
    "a WebSocket": get("/mcp", "allowed.test", ACCEPT, "Upgrade: websocket", "Sec-WebSocket-Version: 13").replace(
        b"Connection: close", b"Connection: upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
    ),
    "the end of no session": get("/mcp", "allowed.test", method="DELETE"),
    "another HTTP method": get("/mcp", "allowed.test", JSON, f"Content-Length: {len(SEARCH)}", method="PUT") + SEARCH,
    "another path": post(SEARCH, path="/mcp/"),
    "deep": post(b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": ' + b'{"a":' * 9000 + b"}" * 9000),
}


@each("name", DENIED)
def test_denies_unlisted_or_ambiguous_messages_without_forwarding(pair: Pair, name: str) -> None:
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(DENIED[name])
        status, _ = read_answer(stream)
    assert status in {400, 403}
    assert pair.server.requests == []


def test_records_ambiguous_messages_as_denied_with_no_bytes_sent(pair: Pair) -> None:
    for request in (DENIED["a batch"], DENIED["a GET for a page"], DENIED["a query that calls"]):
        pair.proxy.ask("allowed.test", request)
    line = pair.proxy.line(host="allowed.test", event="request", mcp="ambiguous", method="GET")
    assert (line["decision"], line["bytes_out"]) == ("deny", 0)


def test_the_denial_names_the_tool_and_the_line_that_would_allow_it(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(post(DELETE))
        status, body = read_answer(stream)
    said: dict[str, Any] = json.loads(body)
    assert (status, said["jsonrpc"], said["id"]) == (403, "2.0", 1)
    assert said["error"] == {"code": -32003, "message": said["message"]}
    assert said["reason"].startswith("host allowed.test is allowed, mcp tools/call delete is not: policy.yaml:6 allows")
    assert said["hint"] == "add `delete` to `mcp.tools` at policy.yaml:6, then: agent-sandbox proxy reload"
    assert pair.proxy.line(path="/mcp", mcp="tools/call delete")["cause"] == "operation"


EXCHANGES = yaml.safe_load((Path(__file__).parents[1] / "lab" / "mcp_exchanges.yaml").read_text("utf-8"))


@pytest.mark.parametrize("revision", EXCHANGES)
def test_a_recorded_client_sees_and_calls_only_the_listed_tool(pair: Pair, revision: str) -> None:
    path_of = "" if revision == "2024-11-05" else "path: {exact: /mcp}, "
    pair.proxy.reload(POLICY.replace("path: {exact: /mcp}, ", path_of).replace("search, read_*", "search"))
    for one in EXCHANGES[revision]:
        method, _, path = one["send"].partition(" ")
        body = one.get("body", "").encode()
        said = [f"{name}: {value}" for name, value in one["headers"].items()]
        said += [JSON, f"Content-Length: {len(body)}"] if body else []
        kind = [f"Content-Type: {one['type']}".encode()] if "type" in one else []
        answer = ok(one.get("answer", "").encode(), *kind)
        pair.server.answers[path.partition("?")[0]] = answer.replace(b"200 OK", b"%d OK" % one["status"], 1)
        status, got = asked(pair, get(path, "allowed.test", *said, method=method) + body)
        assert status == one["status"], one
        if one["status"] == 403:
            assert json.loads(got)["error"]["message"].startswith(
                "Blocked by agent-sandbox: host allowed.test is allowed,"
            )
        elif one.get("lists"):
            assert (b'"name": "search"' in got, b"delete" in got) == (True, False)
        else:
            assert got.decode() == one["answer"]


def event(said: object) -> bytes:
    return b"event: message\nid: 1\ndata: " + json.dumps(said).encode() + b"\n\n"


def asked(pair: Pair, request: bytes) -> tuple[int, bytes]:
    """Return the status of the response and its body."""
    head, _, body = pair.proxy.ask("allowed.test", request).partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        rest, body = body, b""
        while size := int((line := rest.partition(b"\r\n"))[0], 16):
            body, rest = body + line[2][:size], line[2][size + 2 :]
    return int(head.split()[1]), body


LISTS = {
    "json": (ok(json.dumps(TOOLS).encode(), b"Content-Type: application/json; charset=utf-8"), json.dumps(SHOWN)),
    "gzip": (
        ok(gzip.compress(json.dumps(TOOLS).encode()), b"Content-Type: application/json", b"Content-Encoding: gzip"),
        json.dumps(SHOWN),
    ),
    "events": (ok(event(TOOLS), EVENTS), event(SHOWN).decode()),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_tools_shows_only_the_tools_that_can_be_called(pair: Pair, name: str) -> None:
    response, shown = LISTS[name]
    pair.server.answers["/mcp"] = response
    assert asked(pair, post(LISTING)) == (200, shown.encode())
    with pair.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        head = [*fields("/mcp", method="POST"), ("content-type", "application/json")]
        number = client.send(*head, body=LISTING)
        assert client.status(number) == "200"
        while len(client.received[number]) < len(shown):
            for one in client.h2.receive_data(stream.recv(65536)):
                client._note(one)
        assert client.received[number] == shown.encode()


def test_filters_tool_lists_in_event_streams(pair: Pair) -> None:
    pair.server.answers["/mcp"] = ok(event(TOOLS), EVENTS)
    assert asked(pair, get("/mcp", "allowed.test", ACCEPT)) == (200, event(SHOWN))
    assert pair.proxy.line(path="/mcp", mcp="stream")["status"] == 200


def test_forwards_the_result_of_a_call_unchanged(pair: Pair) -> None:
    pair.server.answers["/mcp"] = ok(b"{ what the tool says }", b"Content-Type: text/plain")
    assert asked(pair, post(SEARCH)) == (200, b"{ what the tool says }")


UNREADABLE = {
    "not JSON": ok(b"{", b"Content-Type: application/json"),
    "a key twice": ok(b'{"result": {}, "result": {"tools": []}}', b"Content-Type: application/json"),
    "another case": ok(b'{"Result": {"tools": []}}', b"Content-Type: application/json"),
    "a batch": ok(json.dumps([TOOLS]).encode(), b"Content-Type: application/json"),
    "text": ok(json.dumps(TOOLS).encode(), b"Content-Type: text/plain"),
    "two types": ok(json.dumps(TOOLS).encode(), b"Content-Type: application/json", EVENTS),
    "no type": ok(json.dumps(TOOLS).encode()),
    "another charset": ok(json.dumps(TOOLS).encode("utf-16"), b"Content-Type: application/json; charset=utf-16"),
    "packed twice": ok(b"", b"Content-Type: application/json", b"Content-Encoding: gzip, gzip"),
    "too long": ok(b" " * (1 << 20) + json.dumps(TOOLS).encode(), b"Content-Type: application/json"),
}


@each("name", UNREADABLE)
def test_an_unreadable_list_of_tools_is_answered_with_502(pair: Pair, name: str) -> None:
    pair.server.answers["/mcp"] = UNREADABLE[name]
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(post(LISTING))
        status, body = read_answer(stream)
    said: dict[str, Any] = json.loads(body)
    assert (status, said["id"]) == (502, 1)
    assert said["reason"].startswith("the server's response cannot be forwarded: its list of tools")
    assert pair.proxy.line(path="/mcp", status=502)["mcp"] == "tools/list"


def test_a_call_read_during_a_reload_is_decided_by_the_new_policy(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(post(SEARCH)[:-5])
        pair.proxy.reload(POLICY.replace("search", "find"))
        stream.sendall(SEARCH[-5:])
        assert read_answer(stream)[0] == 403
    assert pair.server.requests == []


def test_decides_chunked_messages(pair: Pair) -> None:
    for body, status in ((SEARCH, 200), (DELETE, 403)):
        head = get("/mcp", "allowed.test", JSON, ACCEPT, "Transfer-Encoding: chunked", method="POST")
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
        with pair.proxy.tls("allowed.test") as stream:
            stream.sendall(head)
            for at in range(0, len(chunks), 100):
                stream.sendall(chunks[at : at + 100])
            assert read_answer(stream)[0] == status


def test_decides_http2_streams_by_their_messages(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        head = [*fields("/mcp", method="POST"), ("content-type", "application/json")]
        streaming = [*fields("/mcp"), ("accept", "text/event-stream")]
        answers = [client.status(client.send(*head, body=body)) for body in (SEARCH, DELETE, b"[" + SEARCH + b"]")]
        answers += [client.status(client.send(*streaming, body=body)) for body in (DELETE,)]
        assert answers == ["200", "403", "403", "403"]


def test_allows_ending_a_session_only_at_the_exact_path_of_the_rule(pair: Pair) -> None:
    ending = get("/repos/x", "allowed.test", "Mcp-Session-Id: 1", method="DELETE")
    for path, status in (("", 403), ("path: {prefix: /}, ", 403), ("path: {exact: /repos/x}, ", 200)):
        pair.proxy.reload(POLICY.replace("path: {exact: /mcp}, ", path))
        assert asked(pair, ending)[0] == status
    assert len(pair.server.requests) == 1


BEGUN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\n\r\n" + b" " * 1_048_000


def test_responses_that_clients_left_do_not_use_up_the_room_of_others(pair: Pair) -> None:
    left = threading.Event()

    def begin(stream: socket.socket, _: bytes) -> None:
        stream.sendall(BEGUN)
        left.wait(30)

    pair.server.answers["/mcp"] = begin
    with contextlib.ExitStack() as stack:
        for _ in range(65):  # together, they need more than the room
            stack.enter_context(pair.proxy.tls("allowed.test")).sendall(post(LISTING))
        deadline = time.monotonic() + 30
        while not any("holds too many other responses" in str(line.get("reason")) for line in [*pair.proxy.lines]):
            assert time.monotonic() < deadline, pair.proxy.lines
            time.sleep(0.05)
    pair.server.answers["/mcp"] = ok(json.dumps(TOOLS).encode(), JSON.encode())
    deadline = time.monotonic() + 30
    while pair.proxy.ask_control("status")["connections"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    left.set()
    answer = pair.proxy.ask("allowed.test", post(LISTING))
    assert (b"read_a" in answer, b"delete" in answer) == (True, False)
