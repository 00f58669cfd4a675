"""A server on loopback: each connection has its own thread, and TLS if there is a certificate."""

import contextlib
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Self


class SelfClosing(ssl.SSLSocket):
    """A socket that closes itself: where the client is gone already, wrap_socket raises and leaves one that is open."""

    def __del__(self) -> None:
        """Close it."""
        self.close()


class Listening(ABC):
    """Listens inside `with`; a subclass serves the connections."""

    certificate: Path | None = None
    protocols: Sequence[str] = ()  # by ALPN
    connections: int = 0

    def __enter__(self) -> Self:
        """Listen."""
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._socket.getsockname()[1]
        self._context = None
        if self.certificate:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.sslsocket_class = SelfClosing
            self._context.load_cert_chain(self.certificate)
            if self.protocols:
                self._context.set_alpn_protocols([*self.protocols])
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening.

        Shut the socket down first: closing it does not end a waiting `accept`. After a signal, the kernel restarts that
        call with the same descriptor number. If another server has that number by then, this one would take its
        connection.
        """
        self._socket.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._socket.close()

    @abstractmethod
    def talk(self, stream: socket.socket) -> None:
        """Serve one connection."""

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                # As servers do: after the tickets of TLS, an answer would wait 40 ms for their acknowledgement.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection:
            stream = self._context.wrap_socket(connection, server_side=True) if self._context else connection
            with stream:
                self.talk(stream)
