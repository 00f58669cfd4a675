"""Budgets: no number of connections, protocol, reload or restart gets more through than the policy allows."""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from capture_server import ok
from http2client import Http2Client, fields
from proxy_pair import Pair, start_pair
from proxy_stand import get, read_all, read_head
from websocket_client import echo, frame, handshake, switch

NAMES = ("counted.test", "streams.test", "sent.test", "url.test", "got.test", "socket.test", "whole.test", "late.test")
POLICY = """\
version: 1
settings: {budget: {requests: 500/day}}
domains:
- {host: counted.test, budget: {requests: 3/day}}
- {host: streams.test, budget: {requests: 3/day}}
- {host: sent.test, budget: {upload: 20KiB/day}}
- {host: url.test, budget: {upload: 20KiB/day}}
- {host: got.test, budget: {download: 20KiB/day}}
- {host: socket.test, budget: {upload: 20KiB/day}}
- {host: late.test, budget: {upload: 1GiB/day}}
- {host: whole.test, inspect: false, budget: {download: 20KiB/day}}
"""
LIMIT = 20 * 1024


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with start_pair(tmp_path_factory.mktemp("budgets"), POLICY, names=NAMES) as started:
        yield started


def status(answer: bytes) -> int:
    return int(answer[9:12])


def test_parallel_connections_and_a_reload_do_not_exceed_the_budget(pair: Pair) -> None:
    def ask(number: int) -> int:
        return status(pair.proxy.ask("counted.test", get(f"/{number}", "counted.test")))

    with ThreadPoolExecutor(12) as clients:
        answers = sorted(clients.map(ask, range(12)))
    assert answers == [200] * 3 + [429] * 9
    assert len(pair.server.requests) == 3
    line = pair.proxy.line(status=429)
    assert (line["rule"], line["cause"]) == ("policy.yaml:4", "budget")
    assert line["reason"].startswith("the budget at policy.yaml:4 is used up: 3 requests per day; it resets at ")

    pair.proxy.reload("\n" + pair.proxy.policy_file.read_text())
    assert ask(13) == 429


def test_a_restart_does_not_reset_a_budget(tmp_path: Path) -> None:
    answers = []
    for _ in range(3):
        with start_pair(tmp_path, POLICY, names=NAMES) as started:
            for number in range(2):
                got = started.proxy.ask("counted.test", get(f"/{number}", "counted.test"))
                answers.append(status(got))
    assert answers == [200, 200, 200, 429, 429, 429]


def test_a_damaged_budget_file_counts_as_used_up(tmp_path: Path) -> None:
    (tmp_path / "state" / "private").mkdir(parents=True)
    file = tmp_path / "state" / "private" / "budgets.json"
    file.write_text('{"boot":')
    file.chmod(0o600)
    with start_pair(tmp_path, POLICY, names=NAMES) as started:
        assert status(started.proxy.ask("counted.test", get("/1", "counted.test"))) == 429
        assert started.server.requests == []


def test_hosts_of_a_service_share_its_budget_even_if_other_entries_allow_them(tmp_path: Path) -> None:
    hosts = {"api.anthropic.com": "/v1/models", "platform.claude.com": "/v1/oauth/hello"}
    policy = f"version: 1\nservices: [{{name: claude, budget: {{requests: 3/day}}}}]\ndomains: [{', '.join(hosts)}]\n"
    with start_pair(tmp_path, policy, names=tuple(hosts)) as pair:
        answers = [status(pair.proxy.ask(host, get(path, host))) for host, path in [*hosts.items()] * 3]
        line = pair.proxy.line(status=429)
    assert answers == [200] * 3 + [429] * 3
    assert len(pair.server.requests) == 3
    assert line["reason"].startswith("the budget at policy.yaml:2 is used up: 3 requests per day; it resets at ")


def test_http2_streams_count_as_requests(pair: Pair) -> None:
    with pair.proxy.tls("streams.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        answers = [client.status(client.send(*fields(f"/{number}", "streams.test"))) for number in range(5)]
    assert answers == ["200"] * 3 + ["429"] * 2


def test_cuts_an_upload_at_the_budget(pair: Pair) -> None:
    came = bytearray()

    def answer(stream: socket.socket, data: bytes) -> None:
        came.extend(data)
        with contextlib.suppress(OSError):
            while data := stream.recv(65_536):
                came.extend(data)

    pair.server.answers["/up"] = answer
    with pair.proxy.tls("sent.test") as stream, contextlib.suppress(OSError):
        stream.sendall(b"POST /up HTTP/1.1\r\nHost: sent.test\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(60):
            stream.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
            time.sleep(0.005)
        read_head(stream)
    line = pair.proxy.line(path="/up", cause="budget")
    assert line["reason"].startswith(f"the budget at {line['rule']} is used up: 20KiB of upload per day")
    assert LIMIT / 2 < came.count(b"x") <= LIMIT
    # The chunk that did not fit was not counted, but this request does not fit into the rest either.
    assert status(pair.proxy.ask("sent.test", get("/small", "sent.test", "X: " + "y" * (LIMIT // 2)))) == 429


def test_data_in_a_url_or_a_header_counts_as_upload(pair: Pair) -> None:
    answers = [status(pair.proxy.ask("url.test", get("/?" + "x" * 4_000, "url.test"))) for _ in range(3)]
    answers += [status(pair.proxy.ask("url.test", get("/", "url.test", "X: " + "y" * 4_000))) for _ in range(3)]
    assert answers == [200, 200, 200, 200, 200, 429]


def test_cuts_a_response_at_the_budget(pair: Pair) -> None:
    pair.server.answers["/down"] = ok(b"x" * 100_000)
    got = pair.proxy.ask("got.test", get("/down", "got.test"))
    assert got.count(b"x") <= LIMIT
    assert pair.proxy.line(path="/down", cause="budget")["bytes_in"] <= 2 * 262_144
    assert status(pair.proxy.ask("got.test", get("/again", "got.test"))) == 200


def test_cuts_a_websocket_at_the_upload_budget(pair: Pair) -> None:
    came = bytearray()

    def answer(stream: socket.socket, _: bytes) -> None:
        switch(stream)
        with contextlib.suppress(OSError):
            while data := stream.recv(65_536):
                came.extend(data)

    pair.server.answers["/ws"] = answer
    with pair.proxy.tls("socket.test") as stream, contextlib.suppress(OSError):
        stream.sendall(handshake("/ws", "socket.test"))
        read_head(stream)
        for _ in range(60):
            stream.sendall(frame(b"x" * 1_000, masked=True))
            time.sleep(0.005)
        stream.recv(1)
    assert pair.proxy.line(event="websocket", host="socket.test")["cause"] == "budget"
    assert LIMIT / 2 < came.count(b"x") <= LIMIT


def test_a_budget_that_a_reload_lowers_ends_an_open_websocket(pair: Pair) -> None:
    pair.server.answers["/ws"] = echo
    with pair.proxy.tls("late.test") as stream, contextlib.suppress(OSError):
        stream.sendall(handshake("/ws", "late.test") + frame(b"x" * 4_000, masked=True))
        read_head(stream)
        text = pair.proxy.policy_file.read_text()
        pair.proxy.reload(text.replace("1GiB", "2KiB"))
        stream.sendall(frame(b"y", masked=True))
        assert b"y" not in read_all(stream)
    assert pair.proxy.line(event="websocket", host="late.test")["cause"] == "budget"


def test_cuts_a_passthrough_download_at_the_budget(pair: Pair) -> None:
    pair.server.answers["/down"] = ok(b"x" * 100_000)
    context = ssl.create_default_context(cafile=pair.proxy.folder / "ca.crt")
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the lab's authority is a plain one
    with (
        contextlib.suppress(OSError),
        pair.proxy.tunnel("whole.test") as connection,
        context.wrap_socket(connection, server_hostname="whole.test") as stream,
    ):
        stream.sendall(get("/down", "whole.test"))
        assert read_all(stream).count(b"x") <= LIMIT
    assert pair.proxy.line(host="whole.test", event="tunnel")["cause"] == "budget"
