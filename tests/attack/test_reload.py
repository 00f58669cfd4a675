"""Exchanges during a reload: those that are no longer allowed end within two seconds, the others continue."""

import json
import queue
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from capture_server import Capture
from http2client import Http2Client, fields
from proxy_pair import Pair, start_pair
from proxy_stand import ProxyProcess, get, read_all, read_answer, read_head
from websocket_client import echo, frame, handshake

BOTH = "version: 1\ndomains: [allowed.test, a.wild.test]\n"
ONE = "version: 1\ndomains: [a.wild.test]\n"
NARROW = "version: 1\ndomains: [a.wild.test, {host: allowed.test, rules: [{path: {prefix: /kept}}]}]\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy, and the server behind all its hosts."""
    with start_pair(tmp_path_factory.mktemp("reload"), BOTH) as pair:
        pair.server.answers |= {"/ws": echo, "/events": tick, "/kept": tick, "/silent": stay_silent}
        yield pair


@pytest.fixture
def pair(started: Pair) -> Pair:
    """The same, with both hosts allowed and empty records."""
    started.proxy.reload(BOTH)
    started.forget()
    return started


@pytest.fixture
def proxy(pair: Pair) -> ProxyProcess:
    """The proxy."""
    return pair.proxy


@pytest.fixture
def server(pair: Pair) -> Capture:
    """The server."""
    return pair.server


def tick(stream: socket.socket, _: bytes) -> None:
    stream.sendall(HEAD)
    while True:
        stream.sendall(b"5\r\ntick\n\r\n")
        time.sleep(0.05)


def stay_silent(stream: socket.socket, _: bytes) -> None:
    read_all(stream)


def keep_alive(connection: ssl.SSLSocket, host: str) -> int:
    connection.sendall(f"GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return read_answer(connection)[0]


def test_closes_keep_alive_connections_of_removed_hosts_only(proxy: ProxyProcess) -> None:
    with proxy.tls("allowed.test") as gone, proxy.tls("a.wild.test") as kept:
        assert (keep_alive(gone, "allowed.test"), keep_alive(kept, "a.wild.test")) == (200, 200)
        answer = proxy.reload(ONE)
        read_all(gone)
        assert keep_alive(kept, "a.wild.test") == 200
    assert (answer["closed"], answer["change"]["unreachable"]) == (1, ["allowed.test"])


def test_ends_event_streams_of_removed_hosts_only(proxy: ProxyProcess) -> None:
    with proxy.tls("allowed.test") as gone, proxy.tls("a.wild.test") as kept:
        for connection, host in ((gone, "allowed.test"), (kept, "a.wild.test")):
            connection.sendall(get("/events", host))
            assert b"tick" in read_head(connection) + connection.recv(100)
        assert proxy.reload(ONE)["closed"] == 1
        read_all(gone)
        assert kept.recv(100)
    line = proxy.line(host="allowed.test", path="/events")
    assert (line["decision"], line["reason"]) == (
        "deny",
        "the policy was reloaded: no rule allows host allowed.test",
    )
    assert line["bytes_in"] > 0


def test_a_pending_request_to_a_removed_host_gets_a_denial(proxy: ProxyProcess, server: Capture) -> None:
    with proxy.tls("allowed.test") as gone:
        gone.sendall(get("/silent", "allowed.test"))
        server.wait_for(1)
        proxy.reload(ONE)
        answer = read_all(gone)
    assert answer.startswith(b"HTTP/1.1 403")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["reason"].startswith("the policy was reloaded: ")
    assert proxy.line(host="allowed.test", decision="deny")["status"] == 403


def test_ends_websockets_of_removed_hosts_only(proxy: ProxyProcess) -> None:
    with proxy.tls("allowed.test") as gone, proxy.tls("a.wild.test") as kept:
        for connection, host in ((gone, "allowed.test"), (kept, "a.wild.test")):
            connection.sendall(handshake(host=host))
            assert b" 101 " in read_head(connection)
            connection.sendall(frame(b"hello", masked=True))
            assert connection.recv(100).endswith(b"hello")
        assert proxy.reload(ONE)["closed"] == 1
        read_all(gone)
        kept.sendall(frame(b"again", masked=True))
        assert kept.recv(100).endswith(b"again")
    line = proxy.line(host="allowed.test", event="websocket")
    assert (line["decision"], line["reason"]) == ("deny", "the policy was reloaded: no rule allows host allowed.test")


def test_resets_only_the_http2_streams_that_are_no_longer_allowed(proxy: ProxyProcess) -> None:
    with proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        gone, kept = client.send(*fields("/events")), client.send(*fields("/kept"))
        assert {client.status(gone), client.status(kept)} == {"200"}
        assert proxy.reload(NARROW)["closed"] == 1
        assert client.status(gone) == "reset"
        assert client.status(client.send(*fields("/kept"))) == "200"
    assert proxy.line(path="/events")["decision"] == "deny"
    assert "aborted" in proxy.line(path="/kept")["reason"]


def test_closes_the_http2_connection_of_a_removed_host(proxy: ProxyProcess) -> None:
    with proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        assert client.status(client.send(*fields("/events"))) == "200"
        proxy.reload(ONE)
        read_all(stream)


def test_cutting_an_upload_resets_the_server_connection(proxy: ProxyProcess, server: Capture) -> None:
    begun, ends = threading.Event(), queue.SimpleQueue[str]()

    def listen(stream: socket.socket, _: bytes) -> None:
        begun.set()
        try:
            while stream.recv(65536):
                pass
            ends.put("closed")
        except OSError as error:
            ends.put(type(error).__name__)

    server.answers["/upload"] = listen
    head = get("http://allowed.test/upload", "allowed.test", "Transfer-Encoding: chunked", method="POST")
    with proxy.connect() as gone:
        gone.sendall(head + b"5\r\nhello\r\n")
        assert begun.wait(30)
        proxy.reload(ONE)
        assert b" 403 " in read_head(gone)
    assert ends.get(timeout=30) == "ConnectionResetError"


def test_applies_the_new_policy_to_plain_requests_on_open_connections(proxy: ProxyProcess) -> None:
    def ask(connection: socket.socket, host: str) -> int:
        connection.sendall(f"GET http://{host}/x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return read_answer(connection)[0]

    with proxy.connect() as connection:
        assert [ask(connection, host) for host in ("allowed.test", "a.wild.test")] == [200, 200]
        proxy.reload(ONE)
        assert [ask(connection, host) for host in ("allowed.test", "a.wild.test")] == [403, 200]


def test_closes_a_denied_tunnel_once_its_host_is_allowed(proxy: ProxyProcess) -> None:
    proxy.reload(ONE)
    with proxy.tls("allowed.test") as refused:
        assert keep_alive(refused, "allowed.test") == 403
        proxy.reload(BOTH)
        read_all(refused)
    with proxy.tls("allowed.test") as opened:
        assert keep_alive(opened, "allowed.test") == 200


def test_reports_what_the_reload_changed(proxy: ProxyProcess) -> None:
    answer = proxy.reload(NARROW)
    assert answer["change"] == {
        "added": [{"effect": "allow", "rule": "any method allowed.test/kept/...", "origin": "policy.yaml:2"}],
        "removed": [{"effect": "allow", "rule": "any method allowed.test", "origin": "policy.yaml:2"}],
        "others": [],
        "unreachable": [],
        "counts": {"added": 1, "removed": 1, "others": 0, "unreachable": 0},
    }
    line = proxy.line(event="policy")
    assert line["reason"] == (
        "policy reloaded: 1 rules added, 1 removed, 0 other changes; 0 hosts no longer reachable, 0 connections closed"
    )


WATCHED = "settings: {reload: watch}\n"


def test_watch_reloads_a_saved_policy_and_keeps_the_last_valid_one(proxy: ProxyProcess) -> None:
    proxy.reload(BOTH + WATCHED)
    proxy.forget()
    with proxy.tls("allowed.test") as gone:
        assert keep_alive(gone, "allowed.test") == 200
        replacement = proxy.folder / "replacement"
        replacement.write_text(ONE + WATCHED)
        replacement.replace(proxy.policy_file)
        read_all(gone)
    assert proxy.line(event="policy")["reason"].startswith("policy reloaded: 0 rules added, 1 removed, ")
    proxy.forget()
    proxy.policy_file.write_text("domain: []\n")
    assert "unknown key 'domain'" in proxy.line(event="policy")["reason"]
    assert "unknown key 'domain'" in proxy.ask_control("status")["policy"]["problems"][0]
    assert health(proxy) == 0
    with proxy.tls("a.wild.test") as kept:
        assert keep_alive(kept, "a.wild.test") == 200
    proxy.forget()
    proxy.policy_file.write_text(BOTH)
    assert proxy.line(event="policy")["decision"] == "allow"
    proxy.forget()
    proxy.policy_file.write_text(ONE)
    time.sleep(2.5)
    assert proxy.lines == []


def test_watch_reloads_on_a_change_of_the_host_list(proxy: ProxyProcess) -> None:
    hosts = proxy.folder / "hosts.txt"
    hosts.write_text("allowed.test\na.wild.test\n")
    proxy.reload(f"domains_file: {hosts.name}\n{WATCHED}")
    with proxy.tls("allowed.test") as gone:
        assert keep_alive(gone, "allowed.test") == 200
        hosts.write_text("a.wild.test\n")
        read_all(gone)
    with proxy.tls("a.wild.test") as kept:
        assert keep_alive(kept, "a.wild.test") == 200


def health(proxy: ProxyProcess) -> int:
    return proxy.command("health", f"--proxy={proxy.ready['listening']}").returncode


def test_sighup_reloads_like_the_command(proxy: ProxyProcess) -> None:
    proxy.reload(ONE)
    told = proxy.line(event="policy")["reason"]
    proxy.reload(BOTH)
    with proxy.tls("allowed.test") as connection:
        assert keep_alive(connection, "allowed.test") == 200
        proxy.forget()
        proxy.policy_file.write_text(ONE)
        proxy.process.send_signal(signal.SIGHUP)
        line = proxy.line(event="policy")
        read_all(connection)
    assert (line["decision"], line["reason"]) == ("allow", told.replace("0 connections", "1 connections"))
    assert proxy.ask("allowed.test", get("/", "allowed.test")).startswith(b"HTTP/1.1 403")


def test_sighup_with_an_invalid_file_keeps_the_policy(proxy: ProxyProcess) -> None:
    proxy.policy_file.write_text("version: 7\n")
    proxy.process.send_signal(signal.SIGHUP)
    line = proxy.line(event="policy", decision="deny")  # a record of the last reload can come late
    assert line["reason"].startswith(f"policy not reloaded, the file has problems: {proxy.policy_file}:1:10: ")
    assert proxy.ask("allowed.test", get("/", "allowed.test")).startswith(b"HTTP/1.1 200")


HANGUP_WHILE_IT_STARTS = """
import os, signal
from agent_sandbox.policyfile import cached
load = cached.load_cached
def load_cached(*files, **options):
    os.kill(os.getpid(), signal.SIGHUP)
    return load(*files, **options)
cached.load_cached = load_cached
"""


def test_sighup_during_the_start_does_not_stop_the_proxy(tmp_path: Path) -> None:
    with ProxyProcess(tmp_path, ONE, sabotage=HANGUP_WHILE_IT_STARTS) as proxy:
        assert proxy.say(get("http://evil.test/", "evil.test")).startswith(b"HTTP/1.1 403")
        assert proxy.process.poll() is None


def test_a_killed_proxy_comes_back_with_the_policy_that_was_in_force(tmp_path: Path) -> None:
    """A line that nobody agreed to, as by `git pull`, is not in force after a restart that nobody asked for."""
    mounted = ("--policy-name=.devcontainer/policy.yaml",)
    first, second = (f"version: 1\ndomains: [{hosts}]\n" for hosts in ("a.test", "a.test, b.test"))
    with ProxyProcess(tmp_path, first, more=mounted) as proxy:
        proxy.process.kill()
        proxy.process.wait()
    with ProxyProcess(tmp_path, second, more=mounted) as proxy:
        assert proxy.line(event="policy")["reason"] == (
            "the policy file has changed, and the proxy restarted by itself: the policy from before stays in force; "
            "agent-sandbox proxy reload"
        )
        assert proxy.say(ASK_B).startswith(b"HTTP/1.1 403 ")
        assert proxy.ask_control("reload")["ok"]
        assert not proxy.say(ASK_B).startswith(b"HTTP/1.1 403 ")
    # It was asked to stop: the next start takes the file.
    with ProxyProcess(tmp_path, first, more=mounted) as proxy:
        assert proxy.say(ASK_B).startswith(b"HTTP/1.1 403 ")


ASK_B = b"GET http://b.test/ HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n"
