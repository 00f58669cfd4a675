"""Hints mark data that leaves through allowed hosts or in names. They decide nothing."""

import hashlib
import socket
from collections.abc import Iterator

import pytest

from capture_server import ok
from proxy_pair import Pair, start_pair
from proxy_stand import get, read_all

NAMES = ("first.test", "second.test")
POLICY = "version: 1\ndomains: [first.test, second.test]\n"
BLOB = hashlib.shake_256(b"x").hexdigest(400)
UPLOAD = 8 << 20


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with start_pair(tmp_path_factory.mktemp("hints"), POLICY, names=NAMES) as started:
        yield started


def status(answer: bytes) -> int:
    return int(answer[9:12])


def test_marks_encoded_data_in_a_path_or_query_and_still_allows_it(pair: Pair) -> None:
    for target in (f"/{BLOB}", f"/q?d={BLOB * 3}"):
        pair.proxy.forget()
        assert status(pair.proxy.ask("first.test", get(target, "first.test"))) == 200
        line = pair.proxy.line(host="first.test")
        assert line["hint"].startswith("encoded data: ")
        assert "?" not in line["path"]


def test_marks_a_large_upload_and_still_allows_it(pair: Pair) -> None:
    def read_all_and_answer(stream: socket.socket, data: bytes) -> None:
        came = len(data)
        while came < UPLOAD and (data := stream.recv(1 << 20)):
            came += len(data)
        stream.sendall(ok(b""))

    pair.server.answers["/up"] = read_all_and_answer
    head = f"POST /up HTTP/1.1\r\nHost: second.test\r\nConnection: close\r\nContent-Length: {UPLOAD}\r\n\r\n"
    with pair.proxy.tls("second.test") as stream:
        stream.settimeout(60)
        stream.sendall(head.encode() + b"x" * UPLOAD)
        assert status(read_all(stream)) == 200
    line = pair.proxy.line(path="/up")
    assert line["hint"] == "upload: sent 8 MiB at once; the most before to this host was 0 KiB"


def test_marks_denied_host_names_that_carry_data(pair: Pair) -> None:
    pair.proxy.forget()
    for number in range(30):
        name = f"{hashlib.sha256(b'%d' % number).hexdigest()[:40]}.evil.test"
        assert status(pair.proxy.ask(name, get("/", name))) == 403
    line = pair.proxy.line(hint="many names: 30 below evil.test within 10 minutes")
    assert line["decision"] == "deny"
