"""A receiver of messages on loopback, which answers as a test wants, or never."""

import queue
import socket
import threading
from pathlib import Path
from typing import override

from loopback_server import Listening

OK = b"HTTP/1.1 204 No Content\r\n\r\n"
SECONDS = 30.0


class Receiver(Listening):
    """Keeps each message as its head and body. `answers` are sent one for each, the last one again and again.

    An answer of None is none: the connection stays open.
    """

    def __init__(self, *answers: bytes | None, certificate: Path | None = None) -> None:
        self.answers = [*(answers or (OK,))]
        self.certificate = certificate
        self.over = threading.Event()
        self._got: queue.Queue[tuple[str, bytes]] = queue.Queue()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http{'s' if self.certificate else ''}://localhost:{self.port}/hook?key=1"

    def next(self) -> tuple[str, bytes]:
        """Return the next message."""
        return self._got.get(timeout=SECONDS)

    @property
    def count(self) -> int:
        """How many have come and were not taken."""
        return self._got.qsize()

    @override
    def __exit__(self, *error: object) -> None:
        self.over.set()
        super().__exit__(*error)

    @override
    def talk(self, stream: socket.socket) -> None:
        """Read one message and answer."""
        with stream.makefile("rb") as lines:
            head = b"".join(iter(lines.readline, b"\r\n")).decode()
            length = next(line for line in head.split("\r\n") if line.lower().startswith("content-length:"))
            body = lines.read(int(length.partition(":")[2]))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self._got.put((head, body))
        if answer is None:
            self.over.wait()
        else:
            stream.sendall(answer)
