"""Serve metrics to Prometheus over HTTP."""

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from socketserver import TCPServer, ThreadingMixIn
from typing import override

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PATH = "/metrics"
MOST = 16  # connections at once
SECONDS = 5.0  # of silence on a connection


class MetricsServer(ThreadingMixIn, TCPServer):
    """Serves what `text` returns at /metrics. On a loopback address it answers only to the names of that address.

    So no page in the user's browser can read the metrics under a name of its own (DNS rebinding).
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = MOST

    def __init__(self, address: tuple[str, int], text: Callable[[], bytes]) -> None:
        self.text = text
        self._room = threading.BoundedSemaphore(MOST)
        super().__init__(address, _Handler)
        self.host, self.port = str(self.server_address[0]), int(self.server_address[1])
        names = (self.host, "localhost") if ip_address(self.host).is_loopback else ()
        self.names = frozenset(f"{name}:{self.port}" for name in names)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self.host}:{self.port}{PATH}"

    @override
    def process_request(self, request: object, client_address: object) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)  # type: ignore[arg-type]
        else:
            self.shutdown_request(request)  # type: ignore[arg-type]

    @override
    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._room.release()

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: the client is gone."""


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer
    timeout = SECONDS

    def do_GET(self) -> None:
        """Answer with the metrics."""
        if self.server.names and self.headers.get("Host", "") not in self.server.names:
            self.send_error(HTTPStatus.FORBIDDEN, "not the name of this server")
        elif self.path.partition("?")[0] != PATH:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            text = self.server.text()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    @override
    def version_string(self) -> str:
        return "agent-sandbox"

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""
