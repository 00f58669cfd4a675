"""A company's proxy in a container: opens tunnels to whoever brings the credentials, and writes each question down.

Standard library alone, so that any image with a Python runs it. One JSON line on stdout for each question.

    python upstream_proxy_container.py --port 3128 --credentials me:secret
"""

import argparse
import base64
import contextlib
import json
import socket
import socketserver
import sys
import threading
from typing import override

OPENED, UNKNOWN, UNREACHED = (
    f"HTTP/1.1 {answer}\r\n\r\n".encode()
    for answer in ("200 Connection established", "407 Proxy Authentication Required", "502 Bad Gateway")
)


class Visitor(socketserver.StreamRequestHandler):
    """One connection."""

    credentials = ""
    rbufsize = 0  # what comes behind the head is the tunnel's

    @override
    def handle(self) -> None:
        """Answer one question."""
        lines = list(iter(lambda: self.rfile.readline().decode().strip(), ""))
        where = lines[0].split(" ")[1]
        known = f"Proxy-Authorization: Basic {self.credentials}" in lines
        print(json.dumps({"asked": lines[0], "known": known}), flush=True)
        if not known:
            self.request.sendall(UNKNOWN)
            return
        host, _, port = where.rpartition(":")
        try:
            server = socket.create_connection((host, int(port)), 5)
        except OSError:
            self.request.sendall(UNREACHED)
            return
        with server:
            self.request.sendall(OPENED)
            threading.Thread(target=pump, args=(server, self.request), daemon=True).start()
            pump(self.request, server)


def pump(source: socket.socket, sink: socket.socket) -> None:
    """Forward the data of one side until its end."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def main() -> int:
    """Listen until ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--credentials", required=True)
    options = parser.parse_args()
    Visitor.credentials = base64.b64encode(options.credentials.encode()).decode()
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    with socketserver.ThreadingTCPServer(("0.0.0.0", options.port), Visitor) as server:  # noqa: S104  # its networks are internal
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
