"""A stand-in for the internet: one server that plays every host, and writes down all that reaches it.

Standard library alone, so that any image with a Python runs it; the repositories of github.com also need git. Each
request is one JSON line on stdout; a test judges by those lines, never by what the client claims. Hosts without a
script answer with an echo of the request.

    python fake_internet.py --cert leaf.pem [--https 443] [--http 80] [--raw 22 --raw 853 ...]
"""

import argparse
import json
import re
import socketserver
import ssl
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, override

import fake_forge
import fake_model_api as chat

KEYS = Path(__file__).with_name("keys.json")
PRINT_LOCK = threading.Lock()
GIT_HOST, GIT = "github.com", re.compile(r"/[^/]+/[^/]+/(info/refs\?service=)?git-(upload-pack|receive-pack)")


def capture(event: str, **facts: object) -> None:
    """Write down one thing that arrived."""
    with PRINT_LOCK:
        print(json.dumps({"event": event, **facts}), flush=True)


def refused(host: str, fields: Iterable[str]) -> chat.Json | None:
    """Return a 401 if the host takes only requests with a key, which `KEYS` names by host, and no header has it."""
    keys = json.loads(KEYS.read_text()) if KEYS.exists() else {}
    if host not in keys or any(keys[host] in value for value in fields):
        return None
    return chat.Json({"error": {"type": "authentication_error", "message": "wrong key"}}, status=401)


class Visitor(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    scheme = "http"

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Stay silent: `capture` is the log."""

    def answer_any(self) -> None:
        """Read the request whole, write it down, answer by its host's script."""
        body = self.read_body()
        host = self.headers.get("Host", "")
        capture(
            "request", scheme=self.scheme, sni=getattr(self.connection, "sni", None), method=self.command, host=host,
            path=self.path, body_bytes=len(body), headers=dict(self.headers.items()),
        )  # fmt: skip
        answer = (
            refused(host, self.headers.values())
            or self.forge(host, body)
            or chat.answer(host, self.command, self.path, body)
        )
        if answer is None:
            answer = chat.Json({"host": host, "method": self.command, "path": self.path, "body_bytes": len(body)})
        match answer:
            case fake_forge.Answer():
                self.send_whole(answer.status, answer.kind, answer.body)
            case chat.Json():
                self.send_whole(answer.status, "application/json", json.dumps(answer.value).encode())
            case chat.Events():
                self.send_events(answer.events, pause=answer.pause)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = answer_any  # noqa: N815

    def forge(self, host: str, body: bytes) -> fake_forge.Answer | None:
        """Let git's server answer for a repository, which is made when it is first asked for."""
        found = GIT.fullmatch(self.path) if host == GIT_HOST else None
        if not found:
            return None
        fields = {name.lower(): value for name, value in self.headers.items()}
        return fake_forge.serve(self.path, found[2], fields, None if found[1] else body)

    def read_body(self) -> bytes:
        """Return the request's body, chunked or counted."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def send_whole(self, status: int, kind: str, body: bytes) -> None:
        """Send a whole answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_events(self, events: Iterable[tuple[str, Any]], *, pause: float) -> None:
        """Send server-sent events, each in its own chunk."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for name, data in events:
            head = f"event: {name}\n" if name else ""
            text = f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
            self.wfile.flush()
            time.sleep(pause)
        self.wfile.write(b"0\r\n\r\n")


class SecureVisitor(Visitor):
    """One connection over TLS."""

    scheme = "https"


class Raw(socketserver.BaseRequestHandler):
    """A port where anything that arrives is written down and nothing is answered."""

    @override
    def handle(self) -> None:
        self.request.settimeout(5)
        _, port = self.request.getsockname()
        capture("raw", port=port, bytes=len(self.request.recv(4096)))


class SecureSocket(ssl.SSLSocket):
    """A TLS socket that remembers the name it was asked for."""

    sni: str | None = None


class SecureServer(ThreadingHTTPServer):
    """Does the handshake in the connection's thread, where a silent client delays no other."""

    context: ssl.SSLContext

    @override
    def finish_request(self, request: Any, client_address: Any) -> None:
        try:
            secured = self.context.wrap_socket(request, server_side=True)
        except OSError as error:
            capture("tls_failed", reason=str(error))
            return
        with secured:
            super().finish_request(secured, client_address)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self.server_port

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serve until the end of the block."""
        thread = threading.Thread(target=self.serve_forever)
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


def tls_context(cert: str) -> ssl.SSLContext:
    """Return the server's side of TLS, noting each SNI."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert)
    context.sslsocket_class = SecureSocket

    def note_name(connection: ssl.SSLSocket, name: str, _: ssl.SSLContext) -> None:
        if isinstance(connection, SecureSocket):
            connection.sni = name

    context.set_servername_callback(note_name)  # type: ignore[arg-type]  # typeshed asks for the wider SSLObject
    return context


def main(argv: list[str] | None = None) -> int:
    """Listen on every port asked for, until ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cert", required=True, help="PEM with the certificate and its key")
    parser.add_argument("--address", default="0.0.0.0")  # noqa: S104  # its network is internal
    parser.add_argument("--https", type=int, default=443)
    parser.add_argument("--http", type=int, default=80)
    parser.add_argument("--raw", type=int, action="append", default=[])
    options = parser.parse_args(argv)

    ThreadingHTTPServer.daemon_threads = True
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    secure = SecureServer((options.address, options.https), SecureVisitor)
    secure.context = tls_context(options.cert)
    plain = ThreadingHTTPServer((options.address, options.http), Visitor)
    servers: list[socketserver.BaseServer] = [secure, plain]
    servers += [socketserver.ThreadingTCPServer((options.address, port), Raw) for port in options.raw]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    capture("listening", https=secure.server_port, http=plain.server_port)
    threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
