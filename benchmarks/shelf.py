"""Serve the files of a folder over TLS, each on a kept-alive connection. Prints its port.

python shelf.py leaf.pem FOLDER
"""

from __future__ import annotations

import ssl
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import override


class Visitor(SimpleHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and small bodies in one piece

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def main() -> None:
    """Serve until it is ended."""
    leaf, folder = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(leaf)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Visitor, directory=folder))
    # Each connection's own thread does the handshake: from far away it takes a while.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
