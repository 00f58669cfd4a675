"""A stand-in for the part of GitHub's API that gives tokens to apps. It checks the app's signature."""

import json
import re
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, override

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

APP, LIFE = "123456", 3600
LEVELS = {"read": 1, "write": 2}
INSTALLED = re.compile(r"/repos/([^/]+/[^/]+)/installation")
PERMISSIONS = {"contents": "write", "metadata": "read", "issues": "write", "workflows": "write", "checks": "write"}


@dataclass
class GitHub:
    """The repositories of an app, its permissions, and the bodies of the requests for a token."""

    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    installed: set[str] = field(default_factory=lambda: {"me/app", "me/lib"})
    renamed: set[str] = field(default_factory=set)
    permissions: dict[str, str] = field(default_factory=lambda: dict(PERMISSIONS))
    # How many seconds its clock is ahead.
    ahead: float = 0.0
    # Answers in place of its own: a status and a body, by the end of the path.
    instead: dict[str, tuple[int, object]] = field(default_factory=dict)
    wishes: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    address: str = ""

    def reset(self) -> None:
        """Be as at the start, with the same key."""
        vars(self).update(vars(GitHub(key=self.key, address=self.address)))

    def key_file(self, folder: Path) -> Path:
        """Write the private key as GitHub gives it to the owner of an app."""
        file = folder / "app.pem"
        file.write_bytes(self.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
        file.chmod(0o600)
        return file

    def answer(self, path: str, statement: str, body: bytes) -> tuple[int, object]:
        """Return the status and the answer to a request."""
        end = path.rpartition("/")[2]
        if end in self.instead:
            return self.instead[end]
        if not self.accepts(statement):
            return 401, {"message": "A JSON web token could not be decoded"}
        if found := INSTALLED.fullmatch(path):
            return self.installation(found[1])
        wish = json.loads(body)
        self.wishes.append(wish)
        if not {f"me/{one}" for one in wish["repositories"]} <= self.installed:
            return 422, {"message": "There is at least one repository that is not accessible"}
        if any(LEVELS[level] > LEVELS[self.permissions[name]] for name, level in wish["permissions"].items()):
            return 422, {"message": "The permissions requested are not granted"}
        self.tokens.append(f"ghs_token{len(self.tokens)}" + "x" * 30)
        end_of_life = datetime.fromtimestamp(int(time.time() + self.ahead) + LIFE, UTC)
        repositories = [{"full_name": f"Me/{one}"} for one in wish["repositories"]]
        said = {"token": self.tokens[-1], "expires_at": f"{end_of_life:%Y-%m-%dT%H:%M:%SZ}"}
        return 201, {**said, "repositories": repositories}

    def installation(self, repository: str) -> tuple[int, object]:
        """Return the app's permissions in a repository."""
        if repository in self.renamed:
            return 301, {"message": "Moved Permanently"}
        if repository.lower() not in self.installed:
            return 404, {"message": "Not Found"}
        return 200, {"id": 7, "permissions": self.permissions}

    def accepts(self, statement: str) -> bool:
        """Return whether the statement is the app's own, and in time."""
        text, _, signature = statement.removeprefix("Bearer ").rpartition(".")
        try:
            self.key.public_key().verify(
                urlsafe_b64decode(f"{signature}=="), text.encode(), padding.PKCS1v15(), SHA256()
            )
        except InvalidSignature:
            return False
        said = json.loads(urlsafe_b64decode(f"{text.partition('.')[2]}=="))
        now = time.time() + self.ahead
        return bool(said["iss"] == APP and said["iat"] <= now < said["exp"] <= now + 600)


@contextmanager
def github() -> Iterator[GitHub]:
    """Serve the API on loopback."""
    it = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def answer_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            status, said = it.answer(self.path, self.headers["Authorization"], self.rfile.read(length))
            body = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response_only(status)
            self.send_header("Date", formatdate(time.time() + it.ahead, usegmt=True))
            self.send_header("Location", f"{it.address}/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer_any  # noqa: N815

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    it.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield it
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
