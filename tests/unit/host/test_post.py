import threading
from http.client import HTTPConnection
from pathlib import Path
from typing import override
from urllib.parse import urlsplit

import pytest

from agent_sandbox.host.post import NotSentError, post
from certificates import make_authority
from loopback_server import Listening
from post_receiver import Receiver

BODY = b'{"version": 1}'


@pytest.fixture(autouse=True)
def _without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def send(url: str, *, seconds: float = 20.0) -> str:
    """Send a message; return why it did not arrive."""
    try:
        post(urlsplit(url), BODY, {"X-Signature": "v1=x"}, seconds=seconds)
    except NotSentError as error:
        return str(error)
    return ""


def test_sends_a_message() -> None:
    with Receiver() as receiver:
        assert send(receiver.url) == ""
        head, body = receiver.next()
    assert head.startswith("POST /hook?key=1 HTTP/1.1\r\n")
    assert body == BODY
    assert "\r\nX-Signature: v1=x\r\n" in head


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 500 Oops\r\n\r\n", "it answers 500"),
        (b"HTTP/1.1 404 No\r\n\r\n", "it answers 404"),
        (
            b"HTTP/1.1 307 There\r\nLocation: http://localhost:1/\r\n\r\n",
            "it answers 307, a redirect, which is not followed",
        ),
        (b"SSH-2.0-x\r\n", "cannot be reached: badstatusline"),
        (b"", "cannot be reached: remotedisconnected"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"a" * 70_000, "cannot be reached: linetoolong"),
    ],
)
def test_reports_why_the_receiver_did_not_accept_the_message(answer: bytes, why: str) -> None:
    with Receiver(answer) as receiver:
        assert send(receiver.url) == why
        assert receiver.connections == 1


def test_gives_up_on_a_receiver_that_does_not_answer() -> None:
    with Receiver(None) as receiver:
        assert send(receiver.url, seconds=0.2) == "no answer within 0.2 seconds"


class Dripping(Listening):
    """A receiver that sends a header without end."""

    def __init__(self) -> None:
        self.over = threading.Event()

    @override
    def __exit__(self, *error: object) -> None:
        self.over.set()
        super().__exit__(*error)

    @override
    def talk(self, stream: object) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\nX: ")  # type: ignore[attr-defined]
        while not self.over.wait(0.02):
            stream.sendall(b"x")  # type: ignore[attr-defined]


def test_gives_up_on_a_receiver_whose_answer_never_ends() -> None:
    with Dripping() as receiver:
        assert send(f"http://localhost:{receiver.port}/", seconds=0.3) == "no answer within 0.3 seconds"


def test_reports_a_refused_connection() -> None:
    with Receiver() as receiver:
        url = receiver.url
    assert send(url) == "cannot be reached: connection refused"


def test_the_receiver_needs_a_valid_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = make_authority(tmp_path, ["localhost"])
    with Receiver(certificate=tmp_path / "leaf.pem") as receiver:
        assert send(receiver.url).startswith("its certificate is not valid: ")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert send(receiver.url) == ""
        assert receiver.count == 1


class Proxy(Listening):
    """A proxy that denies each request and stores it."""

    said = ""

    @override
    def talk(self, stream: object) -> None:
        while b"\r\n\r\n" not in self.said.encode():
            self.said += stream.recv(1_000).decode()  # type: ignore[attr-defined]
        stream.sendall(b"HTTP/1.1 403 No\r\n\r\n")  # type: ignore[attr-defined]


def test_uses_the_https_proxy_of_the_host_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy() as proxy:
        monkeypatch.setenv("https_proxy", f"http://ana:pass%21@127.0.0.1:{proxy.port}")
        why = send("https://hooks.example.com/secret-path")
    assert why.startswith("cannot be reached: ")
    assert "secret-path" not in why
    assert proxy.said.startswith("CONNECT hooks.example.com:443 HTTP/1.")
    assert "Proxy-Authorization: Basic YW5hOnBhc3Mh\r\n" in proxy.said
    monkeypatch.setenv("https_proxy", f"127.0.0.1:{proxy.port}")
    assert send("https://hooks.example.com/") == "cannot be reached: connection refused"


def test_reports_a_proxy_variable_that_is_not_a_valid_url(monkeypatch: pytest.MonkeyPatch) -> None:
    for said in ("http://proxy.test:port", "http://[proxy"):
        monkeypatch.setenv("https_proxy", said)
        assert send("https://hooks.example.com/") == "https_proxy is not a valid URL"


@pytest.mark.parametrize(("scheme", "port"), [("http", 80), ("https", 443)])
def test_an_ipv6_address_without_a_port_gets_the_default_port(
    scheme: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def connect(connection: HTTPConnection) -> None:
        asked.append((connection.host, connection.port))
        raise ConnectionRefusedError

    monkeypatch.setattr(HTTPConnection, "connect", connect)
    assert send(f"{scheme}://[::1]/hook") == "cannot be reached: connectionrefusederror"
    assert asked == [("::1", port)]
