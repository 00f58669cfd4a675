"""A vendor's token endpoint and its client: each refresh token works once, and its second use signs everyone out."""

import json
import socket
import sys
import threading
import time
from pathlib import Path
from typing import override

from loopback_server import Listening

# Refreshes a token with less than five minutes left; with a lock file, one at a time. It writes the file in two pieces,
# so readers can find half of it.
CLIENT = """\
#!{python} -IS
import fcntl, json, socket, time
lock = open({lock!r}, "w") if {lock!r} else None
if lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
held = json.load(open({file!r}))
if held["expires"] - time.time() < 300:
    with socket.create_connection(("127.0.0.1", {port})) as stream:
        stream.sendall(held["refresh"].encode() + b"\\n")
        said = stream.makefile().readline()
    if not said:
        raise SystemExit("400 invalid_grant")
    with open({file!r}, "w") as file:
        for part in (said[:20], said[20:]):
            file.write(part)
            file.flush()
            time.sleep(0.02)
"""


class TokenEndpoint(Listening):
    """Answers a refresh token with new tokens, as the client's file has them; with nothing after everyone is out."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self.refreshes = 0
        self.signed_out = False

    def tokens(self, seconds: float) -> str:
        """Return the client's file with the current tokens, valid for this many seconds."""
        return json.dumps({"access": self.access, "refresh": self.refresh, "expires": time.time() + seconds})

    @property
    def access(self) -> str:
        """The current access token."""
        return f"access-token-{self.refreshes}"

    @property
    def refresh(self) -> str:
        """The current refresh token."""
        return f"refresh-token-{self.refreshes}"

    def write_client(self, path: Path, file: Path, lock: Path | None = None) -> None:
        """Install the client, with its credential file."""
        path.write_text(CLIENT.format(python=sys.executable, port=self.port, file=str(file), lock=str(lock or "")))
        path.chmod(0o755)

    @override
    def talk(self, stream: socket.socket) -> None:
        with stream.makefile() as lines:
            sent = lines.readline().strip()
        with self._lock:
            self.signed_out |= sent != self.refresh
            if not self.signed_out:
                self.refreshes += 1
                stream.sendall(self.tokens(self._seconds).encode() + b"\n")
