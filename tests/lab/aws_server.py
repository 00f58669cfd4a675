"""A stand-in for AWS over TLS on loopback: it answers 403 unless a request is signed with the real key.

It checks signatures by its own reading of the published algorithm, on the bytes that arrive.
"""

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import override
from urllib.parse import parse_qsl, quote, unquote

from fake_internet import SecureServer, tls_context

KEY_ID, SECRET = "AKIAOFTHEOWNER000001", "a/real+secret/key/Of0TheOwner1234567890A"
DENIED = b"<Error><Code>SignatureDoesNotMatch</Code><CanonicalRequest>%s</CanonicalRequest></Error>"


class AwsServer(SecureServer):
    """The server: `seen` has the method, target and access key id of each request, `stored` the bodies by path."""

    token: str | None
    seen: list[tuple[str, str, str]]
    raw: list[str]
    stored: dict[str, bytes]


class Visitor(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: AwsServer

    def answer_any(self) -> None:
        """Check the signature, then store or return a body."""
        body = self.read_body()
        path, _, query = self.path.partition("?")
        header = self.headers.get("Authorization", "")
        self.server.raw.append(f"{self.path}\n{self.headers}")
        self.server.seen.append((self.command, self.path, header.partition("Credential=")[2].partition("/")[0]))
        fields = [(name.lower(), value) for name, value in self.headers.items()]
        why = fault(self.command, path, query, fields, body, self.server.token)
        if why:
            self.send(403, DENIED % why.encode())
        elif "errors" in query:
            # As AWS does where the token has expired.
            self.send(int(query.partition("=")[2]), f"<Token>{self.headers['x-amz-security-token']}</Token>".encode())
        elif self.command == "PUT":
            self.server.stored[path] = content(body, self.headers.get("x-amz-content-sha256", ""))
            self.send(200, b"")
        else:
            self.send(200, self.server.stored.get(path, b"{}"))

    def read_body(self) -> bytes:
        """Read a body with a length, or in chunks."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def send(self, status: int, body: bytes) -> None:
        """Send a whole answer, or the range of it that was asked for."""
        wanted = self.headers.get("Range", "")
        whole, start = len(body), 0
        if status == 200 and wanted:
            start, end = (int(text) for text in wanted.removeprefix("bytes=").split("-"))
            status, body = 206, body[start : end + 1]
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{whole}")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer_any  # noqa: N815

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


def content(body: bytes, form: str) -> bytes:
    """Return the uploaded data, without AWS's chunk framing."""
    if not form.startswith("STREAMING-"):
        return body
    found = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size.partition(b";")[0], 16)
        if not length:
            return found
        found, body = found + body[:length], body[length + 2 :]
    return found


def fault(  # noqa: PLR0917 - the parts of a request
    method: str, path: str, query: str, fields: Sequence[tuple[str, str]], body: bytes, token: str | None
) -> str:
    """Return why a signature is wrong, "" if it is right."""
    given = dict(fields)
    scheme, _, rest = given.get("authorization", "").partition(" ")
    parts = dict(part.strip().split("=", 1) for part in rest.split(",") if "=" in part)
    key_id, *scope = parts.get("Credential", "").split("/")
    names = parts.get("SignedHeaders", "").split(";")
    if (scheme, key_id, len(scope)) != ("AWS4-HMAC-SHA256", KEY_ID, 4):
        return "not a key of ours"
    if given.get("x-amz-security-token") != token:
        return "not a session of ours"
    unsigned = {name for name, _ in fields if name.startswith("x-amz-")} | {"host"}
    if unsigned - set(names):
        return f"unsigned: {unsigned - set(names)}"
    hashed = given.get("x-amz-content-sha256", hashlib.sha256(body).hexdigest())
    if len(hashed) == 64 and hashed != hashlib.sha256(body).hexdigest():
        return "another body"
    once = quote(unquote(path), safe="/-_.~")
    pairs = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
        for name, value in parse_qsl(query, keep_blank_values=True)
    )
    canonical = "\n".join(
        [
            method,
            once if scope[2] == "s3" else quote(path, safe="/-_.~"),
            "&".join(f"{name}={value}" for name, value in pairs),
            *(f"{name}:{' '.join(given[name].split())}" for name in names),
            "",
            ";".join(names),
            hashed,
        ]
    )
    key = ("AWS4" + SECRET).encode()
    for part in scope:
        key = hmac.new(key, part.encode(), "sha256").digest()
    text = "\n".join((scheme, given["x-amz-date"], "/".join(scope), hashlib.sha256(canonical.encode()).hexdigest()))
    wanted = hmac.new(key, text.encode(), "sha256").hexdigest()
    return "" if hmac.compare_digest(wanted, parts.get("Signature", "")) else canonical


@contextmanager
def aws_server(certificate: Path) -> Iterator[AwsServer]:
    """Serve everything that the key may do."""
    server = AwsServer(("127.0.0.1", 0), Visitor)
    server.context, server.token = tls_context(str(certificate)), None
    server.seen, server.raw, server.stored = [], [], {}
    with server.running():
        yield server
