"""A TLS server that costs little: one thread, small files from a folder, or ten bytes. Prints its port.

python origin.py leaf.pem [FOLDER]
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import sys
from pathlib import Path

READ = 65_536
WAITS = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


def answer(body: bytes) -> bytes:
    """Return a whole response."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


TEN_BYTES = answer(b"x" * 10)


class Visitor:
    """One connection: requests without bodies, answered in turn."""

    def __init__(self, stream: ssl.SSLSocket, folder: Path | None) -> None:
        self.stream = stream
        self._folder = folder
        self._is_secure = False
        self._asked, self._unsent = b"", b""

    def go_on(self) -> int:
        """Read and write as much as there is. Return the events to wait for, 0 at the end."""
        with contextlib.suppress(*WAITS):
            if not self._is_secure:
                self.stream.do_handshake()
                self._is_secure = True
            while True:
                self._flush()
                data = self.stream.recv(READ)
                if not data:
                    return 0
                *heads, self._asked = (self._asked + data).split(b"\r\n\r\n")
                self._unsent += b"".join(map(self._answer, heads))
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)

    def _flush(self) -> None:
        while self._unsent:
            self._unsent = self._unsent[self.stream.send(self._unsent) :]

    def _answer(self, head: bytes) -> bytes:
        if self._folder is None:
            return TEN_BYTES
        file = self._folder / head.split(b" ", 2)[1].decode().strip("/")
        return answer((file / "index" if file.is_dir() else file).read_bytes())


def serve(certificate: str, folder: Path | None) -> None:
    """Serve until the process ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    selector = selectors.DefaultSelector()
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        print(listening.getsockname()[1], flush=True)
        selector.register(listening, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    stream, _ = listening.accept()
                    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    stream.setblocking(False)  # noqa: FBT003 - the standard library's
                    secured = context.wrap_socket(stream, server_side=True, do_handshake_on_connect=False)
                    selector.register(secured, selectors.EVENT_READ, Visitor(secured, folder))
                    continue
                visitor: Visitor = key.data
                try:
                    events = visitor.go_on()
                except OSError:
                    events = 0
                if events:
                    selector.modify(visitor.stream, events, visitor)
                else:
                    selector.unregister(visitor.stream)
                    visitor.stream.close()


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]) if sys.argv[2:] else None)
