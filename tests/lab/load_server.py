"""An upstream for loads: bytes down, bytes up, events, a WebSocket echo. Prints its TLS port.

GET /bytes/N sends N bytes, and GET /json/N as many of a list of records; POST answers with the number of bytes that
came; GET /events sends an event at once and one more after a second; an Upgrade to websocket is accepted and every
frame comes back.

    python load_server.py leaf.pem
"""

import base64
import hashlib
import json
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, override

BLOCK = b"x" * 65536
# As the API of a forge answers: words, addresses and escapes.
RECORD = {
    "id": 4711,
    "title": 'Fix the parser\'s "quoted" words',
    "labels": ["bug", "p1"],
    "body": "See the log:\nno\n",
}
RECORDS = "".join(
    json.dumps({**RECORD, "id": number, "url": f"https://a.test/x?q=%20{number}&b=c"}, indent=2) + ",\n"
    for number in range(300)
).encode()
WEBSOCKET = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Visitor(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 16_384  # the head of a response and its short body are sent together, as most servers do

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        """Send the content that the path names."""
        if "Upgrade" in self.headers:
            self.echo_frames()
        elif self.path == "/events":
            self.send_events()
        else:
            size = int(self.path.rpartition("/")[2])
            self.send_bytes(size, RECORDS[: len(BLOCK)] if "json" in self.path else BLOCK)

    def do_POST(self) -> None:
        """Count what comes."""
        left = wanted = int(self.headers["Content-Length"])
        while left:
            left -= len(self.rfile.read(min(left, len(BLOCK))))
        self.send_body(str(wanted).encode())

    def send_body(self, body: bytes) -> None:
        """Send a small body whole."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_bytes(self, size: int, block: bytes) -> None:
        """Send a body of a size."""
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        for start in range(0, size, len(block)):
            self.wfile.write(block[: size - start])

    def send_events(self) -> None:
        """Send two events, a second apart."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for number in (1, 2):
            self.wfile.write(b"data: %d\n\n" % number)
            self.wfile.flush()
            time.sleep(1)
        self.close_connection = True

    def echo_frames(self) -> None:
        """Accept a WebSocket and send every short text frame back."""
        key = self.headers["Sec-WebSocket-Key"].encode()
        accept = base64.b64encode(hashlib.sha1(key + WEBSOCKET).digest()).decode()  # noqa: S324  # RFC 6455 wants it
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()
        while len(head := self.rfile.read(6)) == 6:
            payload = self.rfile.read(head[1] & 0x7F)
            text = bytes(byte ^ head[2 + place % 4] for place, byte in enumerate(payload))
            self.wfile.write(bytes([head[0], len(text)]) + text)
            self.wfile.flush()
        self.close_connection = True


class SecureServer(ThreadingHTTPServer):
    """Does the handshake in the connection's own thread."""

    daemon_threads = True
    request_queue_size = 128
    context: ssl.SSLContext

    @override
    def finish_request(self, request: Any, client_address: Any) -> None:
        with self.context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Stay silent: a client that goes away is no event."""


def main() -> int:
    """Listen on a free port of loopback, until ended."""
    server = SecureServer(("127.0.0.1", 0), Visitor)
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.context.set_alpn_protocols(["http/1.1"])
    server.context.load_cert_chain(sys.argv[1])
    print(server.server_port, flush=True)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
