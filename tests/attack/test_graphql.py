"""GraphQL by a list of operations: reads pass and writes do not, however they are wrapped, framed or split."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from http2client import Http2Client, fields
from proxy_pair import HURRY, Pair, start_pair
from proxy_stand import get, read_answer, read_head

POLICY = """\
version: 1
domains:
  - a.wild.test
  - host: allowed.test
    rules:
      - {path: {exact: /graphql}, schemes: [https], graphql: {query: [viewer, repository], mutation: [addComment]}}
"""
READING = b'{"query": "{viewer{login}}"}'
WRITING = b'{"query": "mutation {deleteRef{id}}"}'
JSON = "Content-Type: application/json"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy whose policy has a GraphQL rule."""
    with start_pair(tmp_path_factory.mktemp("graphql"), POLICY, sabotage=HURRY) as pair:
        yield pair


@pytest.fixture
def pair(started: Pair) -> Pair:
    """The same, with its policy and empty records."""
    started.proxy.reload(POLICY)
    started.forget()
    return started


def post(body: bytes, *more: str, path: str = "/graphql", kind: str = JSON) -> bytes:
    return get(path, "allowed.test", *filter(None, [kind]), f"Content-Length: {len(body)}", *more, method="POST") + body


def asked(document: str, **more: object) -> bytes:
    return json.dumps({"query": document, **more}).encode()


def received(pair: Pair) -> list[bytes]:
    """Return the bodies that the server got, without the framing of a single chunk."""
    got = [one.body for one in pair.server.requests if one.line.startswith("POST")]
    return [body.removeprefix(b"%x\r\n" % len(READING)).removesuffix(b"\r\n") for body in got]


@pytest.mark.parametrize(
    "body",
    [
        READING,
        asked("query Q($o: String!) { r: repository(owner: $o) { id } ...F } fragment F on Query { viewer { id } }"),
        asked("mutation M { addComment { id } }", operationName="M", variables={"a": "caf\u00e9"}),
        asked("query A { viewer { id } } mutation B { deleteRef { id } }", operationName="A"),
    ],
)
def test_listed_operations_pass_byte_for_byte(pair: Pair, body: bytes) -> None:
    assert pair.proxy.ask("allowed.test", post(body)).startswith(b"HTTP/1.1 200")
    assert received(pair) == [body]
    line = pair.proxy.line(path="/graphql")
    assert (line["decision"], line["rule"], line["bytes_out"]) == ("allow", "policy.yaml:6", len(body))


DENIED = {
    "writing": post(WRITING),
    "an alias": post(asked("mutation { viewer: deleteRef { id } }")),
    "a fragment": post(asked("mutation { ...F } fragment F on Mutation { deleteRef { id } }")),
    "fragments within": post(asked("mutation { addComment { id } ... { ... on Mutation { deleteRef { id } } } }")),
    "the other of two": post(asked("query A { viewer } mutation B { deleteRef { id } }", operationName="B")),
    "one of two": post(asked("query A { viewer } mutation B { deleteRef { id } }")),
    "two of a name": post(asked("query A { viewer } mutation A { deleteRef { id } }", operationName="A")),
    "a subscription": post(asked("subscription { viewer { id } }")),
    "introspection": post(asked("{ __schema { types { name } } }")),
    "a condition": post(asked("{ viewer @skip(if: true) { id } }")),
    "a batch": post(b"[" + READING + b"]"),
    "a key twice": post(b'{"query": "{viewer}", "query": "mutation {deleteRef{id}}"}'),
    "a key in another case": post(b'{"query": "{viewer}", "QUERY": "mutation {deleteRef{id}}"}'),
    "a document kept elsewhere": post(b'{"extensions": {"persistedQuery": {"sha256Hash": "0"}}}'),
    "behind the end": post(READING + b"\n" + WRITING),
    "a mark in front": post(b"\xef\xbb\xbf" + READING),
    "another encoding": post(READING.decode().encode("utf-16")),
    "a line of its own in a comment": post(asked("{ viewer } # \u2028 mutation")),
    "packed": post(gzip.compress(READING), "Content-Encoding: gzip"),
    "said to be packed": post(READING, "Content-Encoding: identity"),
    "said to be packed, folded": post(READING, "Content_Encoding: gzip"),
    "a form": post(READING, kind="Content-Type: multipart/form-data; boundary=x"),
    "two kinds": post(READING, "Content-Type: application/graphql"),
    "another charset": post(READING, kind=f"{JSON}; charset=utf-7"),
    "no kind": post(READING, kind=""),
    "in the URL": post(READING, path="/graphql?query=mutation%20%7BdeleteRef%7Bid%7D%7D"),
    "in the URL alone": get("/graphql?query=%7Bviewer%7D", "allowed.test"),
    "another method": post(WRITING, "X-HTTP-Method-Override: GET").replace(b"POST", b"PUT", 1),
    "nothing": get("/graphql", "allowed.test", JSON, method="POST"),
    "another path": post(READING, path="/graphql/"),
    "deep": post(asked("{ viewer " * 900 + "}" * 900)),
    "long": post(asked("{ " + "viewer " * 3000 + "}")),
}


@pytest.mark.parametrize("name", DENIED)
def test_denies_unlisted_or_ambiguous_operations_without_forwarding(pair: Pair, name: str) -> None:
    answer = pair.proxy.ask("allowed.test", DENIED[name])
    assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")), answer
    assert pair.server.requests == []
    line = pair.proxy.line(host="allowed.test", event="request")
    assert (line["decision"], line["bytes_out"]) == ("deny", 0)


def test_denies_an_oversized_content_length_before_the_body_arrives(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(get("/graphql", "allowed.test", JSON, "Content-Length: 99999999", method="POST"))
        status, body = read_answer(stream)
    assert (status, "a body of more than 256 KiB" in json.loads(body)["reason"]) == (403, True)


def test_denies_plain_http_where_the_rule_requires_https(pair: Pair) -> None:
    with pair.proxy.connect() as connection:
        connection.sendall(post(READING, path="http://allowed.test/graphql"))
        assert read_head(connection).startswith(b"HTTP/1.1 403")
    assert pair.plain.requests == []


@pytest.mark.parametrize("size", [1, 5])
def test_decides_chunked_bodies_whatever_the_chunk_size(pair: Pair, size: int) -> None:
    for body, status in ((READING, b"200"), (WRITING, b"403")):
        with pair.proxy.tls("allowed.test") as stream:
            stream.sendall(get("/graphql", "allowed.test", JSON, "Transfer-Encoding: chunked", method="POST"))
            for start in range(0, len(body), size):
                piece = body[start : start + size]
                stream.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            stream.sendall(b"0\r\n\r\n")
            assert read_head(stream).startswith(b"HTTP/1.1 " + status)
    assert received(pair) == [READING]


def test_sends_100_continue_only_if_the_body_can_change_the_decision(pair: Pair) -> None:
    for kind, status in ((JSON, b"100"), ("Content-Type: text/plain", b"403")):
        with pair.proxy.tls("allowed.test") as stream:
            head = post(READING, "Expect: 100-continue", kind=kind).removesuffix(READING)
            stream.sendall(head)
            assert read_head(stream).startswith(b"HTTP/1.1 " + status)
            if status == b"100":
                stream.sendall(READING)
                assert read_head(stream).startswith(b"HTTP/1.1 200")


def test_decides_each_pipelined_request_by_its_own_body(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall((post(READING) + post(WRITING) + post(READING)).replace(b"Connection: close\r\n", b""))
        assert [read_answer(stream)[0] for _ in range(3)] == [200, 403, 200]
    assert received(pair) == [READING, READING]


def test_a_body_shorter_than_its_content_length_times_out_with_408(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(post(READING).replace(b"Content-Length: 28", b"Content-Length: 29"))
        assert read_answer(stream)[0] == 408
    assert pair.server.requests == []
    line = pair.proxy.line(path="/graphql")
    assert (line["decision"], line["reason"]) == ("deny", "the request body did not arrive in time")


def test_forwards_nothing_if_the_client_disconnects_within_the_body(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(post(READING)[:-1])
    line = pair.proxy.line(path="/graphql")
    assert (line["decision"], line["reason"]) == ("deny", "the request body, needed for the decision, did not arrive")
    assert pair.server.requests == []


def test_an_endless_body_is_a_413_and_is_not_buffered(pair: Pair) -> None:
    before = pair.proxy.memory()
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(get("/graphql", "allowed.test", JSON, "Transfer-Encoding: chunked", method="POST"))
        for _ in range(300):
            stream.sendall(b"4000\r\n" + bytes(0x4000) + b"\r\n")
        assert read_answer(stream)[0] == 413
    assert pair.server.requests == []
    assert pair.proxy.memory() - before < 8 * 1024 * 1024


def test_limits_how_many_bodies_are_read_at_once(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        number = 0
        for _ in range(65):
            number = client.h2.get_next_available_stream_id()
            client.h2.send_headers(number, [*fields("/graphql", method="POST"), ("content-type", "application/json")])
            client.h2.send_data(number, b"{")
        client.flush()
        assert client.status(number) == "429"
    # The proxy notices that the client is gone once it has processed its data.
    end = time.monotonic() + 30
    while not pair.proxy.ask("allowed.test", post(READING)).startswith(b"HTTP/1.1 200"):
        assert time.monotonic() < end
    assert received(pair) == [READING]


def test_a_request_read_during_a_reload_is_decided_by_the_new_policy(pair: Pair) -> None:
    for policy, status in ((POLICY.replace("viewer, ", ""), b"403"), (POLICY, b"200")):
        pair.proxy.reload(POLICY.replace("viewer, ", "node, "))
        with pair.proxy.tls("allowed.test") as stream:
            stream.sendall(post(READING)[:-5])
            pair.proxy.reload(policy)
            stream.sendall(READING[-5:])
            assert read_head(stream).startswith(b"HTTP/1.1 " + status)
    assert received(pair) == [READING]


def test_a_reload_aborts_a_forwarded_request_that_the_new_policy_denies(pair: Pair) -> None:
    arrived, answered = threading.Event(), threading.Event()

    def wait(_: socket.socket, __: bytes) -> None:
        arrived.set()
        answered.wait(30)

    pair.server.answers["/graphql"] = wait
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(post(READING))
        assert arrived.wait(30)
        pair.proxy.reload(POLICY.replace("viewer, ", ""))
        assert read_head(stream).startswith(b"HTTP/1.1 403")
    answered.set()
    del pair.server.answers["/graphql"]


def test_decides_http2_streams_by_their_bodies(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        head = [*fields("/graphql", method="POST"), ("content-type", "application/json")]
        answers = [client.status(client.send(*head, body=body)) for body in (READING, WRITING, b"[" + READING + b"]")]
        assert answers == ["200", "403", "403"]
    assert received(pair) == [READING]


def test_does_not_limit_bodies_of_hosts_without_graphql_rules(pair: Pair) -> None:
    request = get("/x", "a.wild.test", JSON, f"Content-Length: {1 << 20}", method="POST") + bytes(1 << 20)
    assert pair.proxy.ask("a.wild.test", request).startswith(b"HTTP/1.1 200")
    assert received(pair) == [bytes(1 << 20)]
