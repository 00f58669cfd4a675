"""Methods, header fields and framing: rows M1-M9, R1, B3, B9, B10 of the attack list."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from attack_stand import Stand
from http2client import Http2Client, fields
from proxy_stand import get, read_all, read_answer, read_head

HOST = b"Host: allowed.test\r\n"
SMUGGLED = b"GET /admin HTTP/1.1\r\nHost: allowed.test\r\n\r\n"


@pytest.mark.parametrize(
    "field",
    [
        "X-HTTP-Method-Override: DELETE",
        "X-HTTP-Method: DELETE",
        "X-Method-Override: DELETE",
        "x-http-METHOD-override: x",
        "X_HTTP_Method_Override: DELETE",
        "X-HTTP_Method-Override: DELETE",
    ],
)
def test_does_not_forward_method_override_headers(stand: Stand, field: str) -> None:
    assert stand.proxy.ask("allowed.test", get("/api/x", "allowed.test", field)).startswith(b"HTTP/1.1 200")
    assert b"override" not in stand.allowed.requests[0].head.lower()
    assert b"DELETE" not in stand.allowed.requests[0].head


@pytest.mark.parametrize(
    "field",
    [
        "X-Original-URL: /elsewhere",
        "X-Rewrite-URL: /elsewhere",
        "x_original_url: /elsewhere",
        "X-Forwarded-Host: elsewhere",
        "X-Forwarded-Server: elsewhere",
        "X-Host: elsewhere",
        "X-HTTP-Host-Override: elsewhere",
        "X-Original-Host: elsewhere",
        "Forwarded: host=elsewhere",
    ],
)
@pytest.mark.parametrize("over", ["http/1.1", "h2"])
def test_does_not_forward_headers_that_name_another_path_or_host(stand: Stand, field: str, over: str) -> None:
    if over == "h2":
        name, value = field.lower().split(": ")
        with stand.proxy.tls("allowed.test", alpn=("h2",)) as stream:
            client = Http2Client(stream)
            assert client.status(client.send(*fields(), (name, value))) == "200"
    else:
        assert stand.proxy.ask("allowed.test", get("/api/x", "allowed.test", field)).startswith(b"HTTP/1.1 200")
    assert b"elsewhere" not in stand.allowed.requests[0].head


@pytest.mark.parametrize("query", ["_method=DELETE", "a=1&%5fmethod=delete", "a=1;_method=PUT"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_query_that_changes_the_method_is_a_400(stand: Stand, method: str, query: str) -> None:
    request = get(f"/api/x?{query}", "allowed.test", "Content-Length: 0", method=method)
    assert stand.proxy.ask("allowed.test", request).startswith(b"HTTP/1.1 400")
    assert "another method" in stand.proxy.line(decision="deny", path="/api/x")["reason"]
    stand.assert_nothing_got_out()


@pytest.mark.parametrize("method", ["get", "TRACE", "DELETE", "PRI", "FOO", "TRACK", "CONNECT", "POST/", "GET\t"])
def test_denies_or_rejects_methods_that_the_rule_does_not_list(stand: Stand, method: str) -> None:
    answer = stand.proxy.ask("allowed.test", get("/api/x", "allowed.test", method=method))
    assert answer[:12] in (b"HTTP/1.1 403", b"HTTP/1.1 400")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /api/x HTTP/1.1\r\n"
        + HOST
        + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        + SMUGGLED,
        b"POST /api/x HTTP/1.1\r\n"
        + HOST
        + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"
        + SMUGGLED,
        b"POST /api/x HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nhello",
        b"POST /api/x HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        b"POST /api/x HTTP/1.1\r\n" + HOST + b"Content-Length: +5\r\n\r\nhello",
        b"POST /api/x HTTP/1.1\r\n" + HOST + b"Content-Length: 0x5\r\n\r\nhello",
        b"POST /api/x HTTP/1.1\r\n" + HOST + b"Content-Length: 5, 5\r\n\r\nhello",
        b"POST /api/x HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\nhello",
        b"POST /api/x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST /api/x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"POST /api/x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: identity\r\n\r\nhello",
        b"POST /api/x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        b"POST /api/x HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /api/x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"POST /api/x HTTP/1.1\r\n" + HOST + b"Transfer_Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /api/x HTTP/1.1\r\n" + HOST + b"Content_Length: 44\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\n" + HOST + b"X-Folded: a\r\n b\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\n Host: allowed.test\r\n\r\n",
        b"GET /api/x HTTP/1.1\nHost: allowed.test\n\n",
        b"GET /api/x HTTP/1.1\r\nHost: allowed.test\n\r\n",
        b"GET /api/x HTTP/1.1\rHost: allowed.test\r\r",
        b"GET /api/x HTTP/1.1\r\n" + HOST + b"X: a\rb\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\n" + HOST + b"X: a\0b\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\n" + HOST + b": nameless\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\n" + HOST + b"no colon\r\n\r\n",
        b"GET  /api/x HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /api/x  HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET\t/api/x\tHTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /api/x HTTP/1.2\r\n" + HOST + b"\r\n",
        b"GET /api/x HTTP/2.0\r\n" + HOST + b"\r\n",
        b"GET /api/x HTTP/11.1\r\n" + HOST + b"\r\n",
        b"GET /api/x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n\r\nPOST /api/x HTTP/1.1\r\n" + HOST + b"\r\n",
        b"\nGET /api/x HTTP/1.1\r\n" + HOST + b"\r\n",
        b"\0GET /api/x HTTP/1.1\r\n" + HOST + b"\r\n",
    ],
)
def test_an_ambiguous_request_is_a_400_and_closes_the_connection(stand: Stand, request_: bytes) -> None:
    answer = stand.proxy.ask("allowed.test", request_)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\nx-agent-sandbox: blocked\r\n")
    assert answer.count(b"HTTP/1.1 ") == 1
    stand.proxy.line(event="malformed", decision="deny", host="allowed.test")
    stand.assert_nothing_got_out()


MALFORMED = [
    b"5;" + b"x" * 300 + b"\r\nhello\r\n0\r\n\r\n",
    b"5\nhello\n0\n\n",
    b"5\r\nhello0\r\n\r\n",
    b"0x5\r\nhello\r\n0\r\n\r\n",
    b"-5\r\nhello\r\n0\r\n\r\n",
    b"5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
    b"ffffffffffffffffff\r\n",
    b"\r\n",
]


@pytest.mark.parametrize("chunks", MALFORMED)
@pytest.mark.parametrize("path", [b"/api/x", b"/admin"])
def test_a_malformed_chunk_denies_the_request_and_closes_the_connection(
    stand: Stand, path: bytes, chunks: bytes
) -> None:
    head = b"POST " + path + b" HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    answer = stand.proxy.ask("allowed.test", head + chunks + SMUGGLED)
    assert answer.startswith(b"HTTP/1.1 40%d " % (0 if path == b"/api/x" else 3))
    assert answer.count(b"HTTP/1.1 ") == 1
    line = stand.proxy.line(event="request", path=path.decode())
    assert (line["decision"], line["status"]) == ("deny", int(answer[9:12]))
    time.sleep(0.05)
    assert b"/admin" not in bytes(stand.allowed.raw)
    assert stand.allowed.requests == []


def test_a_malformed_chunk_after_an_early_response_cuts_the_response(stand: Stand) -> None:
    def early(stream: socket.socket, _: bytes) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        read_all(stream)

    stand.allowed.answers["/api/early"] = early
    head = b"POST /api/early HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(head)
        assert read_head(stream).startswith(b"HTTP/1.1 200")
        stream.sendall(b"no chunk\r\n" + SMUGGLED)
        assert read_all(stream) in (b"half", b"")
    line = stand.proxy.line(path="/api/early")
    assert (line["decision"], line["reason"]) == ("deny", "malformed body: a malformed chunk size line")
    assert b"/admin" not in bytes(stand.allowed.raw)


def test_forwards_the_content_of_a_chunked_body(stand: Stand) -> None:
    head = b"POST /api/x HTTP/1.1\r\n" + HOST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    with stand.proxy.tls("allowed.test") as stream:
        for piece in (head, b"5\r\nhe", b"llo\r", b"\n3;a=b\r\nyou\r\n0", b"\r\n\r", b"\n"):
            stream.sendall(piece)
            time.sleep(0.02)
        assert read_all(stream).startswith(b"HTTP/1.1 200")
    # An intermediary may choose other chunk boundaries.
    sizes_and_chunks = stand.allowed.wait_for(1)[0].body.split(b"\r\n")
    assert b"".join(sizes_and_chunks[1::2]) == b"helloyou"


def test_pipelined_requests_are_decided_one_by_one(stand: Stand) -> None:
    with stand.proxy.tls("allowed.test") as stream:
        paths = (b"/api/1", b"/admin", b"/api/2")
        stream.sendall(b"".join(b"GET %s HTTP/1.1\r\n%s\r\n" % (path, HOST) for path in paths))
        assert [read_answer(stream)[0] for _ in paths] == [200, 403, 200]
    assert [request.line for request in stand.allowed.requests] == ["GET /api/1 HTTP/1.1", "GET /api/2 HTTP/1.1"]


def test_a_request_smuggled_in_a_body_stays_a_body(stand: Stand) -> None:
    head = b"POST /api/x HTTP/1.1\r\n" + HOST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED)
    assert stand.proxy.ask("allowed.test", head + SMUGGLED).startswith(b"HTTP/1.1 200")
    assert [(request.line, request.body) for request in stand.allowed.requests] == [("POST /api/x HTTP/1.1", SMUGGLED)]


@pytest.mark.parametrize("fields", [[f"X-{number}: y" for number in range(10_000)], ["X: " + "y" * 1_000_000]])
def test_too_many_or_too_large_headers_are_a_431(stand: Stand, fields: list[str]) -> None:
    answer = stand.proxy.ask("allowed.test", get("/api/x", "allowed.test", *fields))
    assert answer.startswith(b"HTTP/1.1 431")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize("fields", [[], ["Expect: 100-continue"]])
def test_denies_an_upload_before_its_body_and_does_not_buffer_it(stand: Stand, fields: list[str]) -> None:
    before = stand.proxy.memory()
    lines = ["POST /admin HTTP/1.1", "Host: allowed.test", "Content-Length: 1073741824", *fields]
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        assert read_head(stream).startswith(b"HTTP/1.1 403 ")
        for _ in range(64):
            stream.sendall(bytes(1_048_576))
        assert stand.proxy.memory() - before < 16 * 1_048_576
    stand.assert_nothing_got_out()


def drain(size: int) -> Callable[[socket.socket, bytes], None]:
    def play(stream: socket.socket, data: bytes) -> None:
        left = size - len(data)
        while left:
            left -= len(stream.recv(min(left, 1_048_576)))
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    return play


def test_an_allowed_upload_is_streamed(stand: Stand) -> None:
    size = 300 * 1_048_576
    before, most = stand.proxy.memory(), 0
    stand.allowed_plain.answers["/api/up"] = drain(size)
    head = b"POST /api/up HTTP/1.1\r\n" + HOST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % size
    with stand.proxy.tunnel("allowed.test", 80) as stream:
        stream.sendall(head)
        for _ in range(size // 1_048_576):
            stream.sendall(bytes(1_048_576))
            most = max(most, stand.proxy.memory())
        assert read_all(stream).startswith(b"HTTP/1.1 200")
    assert most - before < 24 * 1_048_576
    assert stand.proxy.line(path="/api/up", decision="allow")["bytes_out"] == size


def test_answers_expect_continue_and_forwards_the_body(stand: Stand) -> None:
    lines = (
        b"POST /api/x HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nConnection: close\r\nContent-Length: 5\r\n\r\n"
    )
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(lines)
        assert read_head(stream).startswith(b"HTTP/1.1 100 ")
        stream.sendall(b"hello")
        assert read_all(stream).startswith(b"HTTP/1.1 200")
    assert stand.allowed.wait_for(1)[0].body == b"hello"


def test_records_a_client_that_disconnects_within_its_body(stand: Stand) -> None:
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(b"POST /api/x HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\nhello")
        time.sleep(0.1)
    line = stand.proxy.line(decision="allow", path="/api/x")
    assert "aborted" in line["reason"]


@pytest.mark.parametrize("upgrade", ["foo", "tls/1.0", "websocket, foo", "h2"])
def test_denies_upgrades_to_anything_but_websocket(stand: Stand, upgrade: str) -> None:
    request = get("/ws", "allowed.test", f"Upgrade: {upgrade}").replace(b"Connection: close", b"Connection: Upgrade")
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(request)
        assert read_head(stream).startswith(b"HTTP/1.1 403")
    stand.assert_nothing_got_out()


def test_removes_an_h2c_offer_and_forwards_the_request(stand: Stand) -> None:
    fields = ("Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")
    assert stand.proxy.ask("allowed.test", get("/api/x", "allowed.test", *fields)).startswith(b"HTTP/1.1 200")
    head = stand.allowed.requests[0].head.lower()
    assert b"upgrade" not in head
    assert b"settings" not in head


def test_does_not_forward_hop_by_hop_headers(stand: Stand) -> None:
    fields = ("Proxy-Authorization: Basic x", "Proxy-Connection: keep-alive", "Keep-Alive: 5", "TE: trailers")
    stand.proxy.ask("allowed.test", get("/api/x", "allowed.test", *fields))
    head = stand.allowed.wait_for(1)[0].head.lower()
    assert b"proxy-" not in head
    assert b"keep-alive" not in head


def test_forwards_a_redirect_and_decides_the_request_to_its_target(stand: Stand) -> None:
    location = b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/x\r\nContent-Length: 0\r\n\r\n"
    stand.allowed.answers["/api/away"] = location
    answer = stand.proxy.ask("allowed.test", get("/api/away", "allowed.test"))
    assert b"Location: http://evil.test/x" in answer
    assert stand.proxy.say(get("http://evil.test/x", "evil.test")).startswith(b"HTTP/1.1 403")
    assert stand.evil.connections == 0


def curl(stand: Stand, *options: str) -> subprocess.CompletedProcess[str]:
    through = ("-x", f"http://{stand.proxy.ready['listening']}", "--cacert", stand.proxy.ready["ca"])
    known = ("curl", "-sS", "--noproxy", "", "--max-time", "5", "-o", "/dev/null", "-w", "%{http_code}")
    return subprocess.run([*known, *through, *options], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "location", ["https://evil.test/x", "http://evil.test/x", "http://inside.test/latest/", "https://allowed.test/no"]
)
@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_denies_curl_the_target_of_a_redirect(stand: Stand, location: str, version: str) -> None:
    stand.allowed.answers["/api/away"] = b"HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % (
        location.encode()
    )
    assert curl(stand, "-L", version, "https://allowed.test/api/away").stdout == "403"
    stand.proxy.line(decision="deny", host=location.split("/")[2])
    assert [request.line for request in stand.allowed.requests] == ["GET /api/away HTTP/1.1"]
    assert (stand.evil.connections, stand.allowed_plain.connections) == (0, 0)


def test_denies_git_the_target_of_a_redirect(stand: Stand, tmp_path: Path) -> None:
    away = b"Location: https://evil.test/api/repo/info/refs?service=git-upload-pack\r\n"
    stand.allowed.answers["/api/repo/info/refs"] = b"HTTP/1.1 302 Found\r\n%sContent-Length: 0\r\n\r\n" % away
    settings = {
        "http.proxy": f"http://{stand.proxy.ready['listening']}",
        "http.sslCAInfo": stand.proxy.ready["ca"],
        "http.followRedirects": "true",
    }
    chosen = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    done = subprocess.run(
        ["git", *chosen, "ls-remote", "https://allowed.test/api/repo"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_TERMINAL_PROMPT": "0", "NO_PROXY": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode != 0
    assert stand.proxy.line(decision="deny", host="evil.test")["path"] == "/api/repo/info/refs"
    assert stand.evil.connections == 0


def test_responses_of_concurrent_connections_do_not_mix(stand: Stand) -> None:
    answers: dict[str, bytes] = {}

    def one(path: str) -> None:
        answers[path] = stand.proxy.ask("allowed.test", get(path, "allowed.test"))

    threads = [threading.Thread(target=one, args=(f"/api/{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(f"GET {path} HTTP/1.1".encode() in answer for path, answer in answers.items())
