"""A company's proxy on loopback: opens tunnels to configured addresses, records requests, and can lie."""

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import override

from loopback_server import Listening

OPENED = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 corp\r\n\r\n"
# DNS in a network with an upstream proxy: no public name resolves, only names of private addresses, and IP addresses.
FINDS_NOBODY = """\
import socket
resolve, inside = socket.getaddrinfo, {"inside.test": "10.1.2.3", "cloud.test": "169.254.169.254"}
def found(host, *rest, **more):
    if host[0].isdigit() or host in inside:
        return resolve(inside.get(host, host), *rest, **more)
    raise socket.gaierror(-2, "Name or service not known")
socket.getaddrinfo = found
"""


@dataclass
class Company(Listening):
    """Listens, with TLS where it has a certificate. `leads` are ports of loopback by `host:port`.

    `lie` has the connection behind the question to itself, in place of a tunnel.
    """

    leads: Mapping[str, int] = field(default_factory=dict)
    certificate: Path | None = None
    lie: Callable[[socket.socket], None] | None = None
    heads: list[bytes] = field(default_factory=list)
    carried: bytearray = field(default_factory=bytearray)

    @property
    def asked(self) -> list[str]:
        """The requests that it got, line by line."""
        return [head.partition(b"\r\n")[0].decode() for head in self.heads]

    def forget(self) -> None:
        """Begin to count from nothing."""
        self.heads.clear()
        self.carried.clear()
        self.lie = None

    @override
    def talk(self, stream: socket.socket) -> None:
        """Read a request, and open its tunnel or lie."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = stream.recv(1)
            if not byte:
                return
            head += byte
        self.heads.append(head)
        (self.lie or self._tunnel)(stream)

    def _tunnel(self, stream: socket.socket) -> None:
        where = self.asked[-1].split(" ")[1]
        if where not in self.leads:
            stream.sendall(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", self.leads[where])) as server:
            stream.sendall(OPENED)
            threading.Thread(target=self._pump, args=(server, stream, bytearray()), daemon=True).start()
            self._pump(stream, server, self.carried)

    def _pump(self, source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                kept += data
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
