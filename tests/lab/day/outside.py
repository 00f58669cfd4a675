"""The outside of the first day: one address that every name leads to, with a model, a git server, and two registries.

Runs in the image of this folder, in the network of the machine:

    python3 outside.py --cert leaf.pem --address 198.51.100.10

Each request is one JSON line on stdout.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import re
import socketserver
import subprocess
import sys
import tarfile
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import override

from fake_forge import Answer, http_backend
from fake_internet import SecureServer, SecureVisitor, tls_context

DAY = Path("/opt/day")
FORGE = Path("/srv/forge")
PYTHON = (DAY / "pypi", Path("/wheels"))
ANY_HOST = "any.invalid"  # in a document: the host that it is asked of
GIT_HOST, REPOSITORY = "github.com", "ann/{}.git"
GIT = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "init.defaultBranch=main")


def npm_registry() -> dict[str, bytes]:
    """Serve the packages as npm's registries do: path -> document or archive."""
    versions: dict[str, dict[str, object]] = {}
    shelf = {}
    for archive in (DAY / "npm").iterdir():
        with tarfile.open(archive) as opened:
            name = next(
                entry for entry in opened.getnames() if entry.count("/") == 1 and entry.endswith("/package.json")
            )
            found = opened.extractfile(name)
            assert found is not None
            manifest = json.load(found)
        content = archive.read_bytes()
        integrity = f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}"
        place = f"/{manifest['name']}/-/{archive.name}"
        manifest["dist"] = {"tarball": f"https://{ANY_HOST}{place}", "integrity": integrity}
        versions.setdefault(manifest["name"], {})[manifest["version"]] = manifest
        shelf[place] = content
    for name, of in versions.items():
        about = {"name": name, "dist-tags": {"latest": max(of)}, "versions": of}
        shelf[f"/{name}"] = json.dumps(about).encode()
    return shelf


def python_index() -> dict[str, bytes]:
    """Serve the wheels as Python's indexes do."""
    shelf: dict[str, bytes] = {}
    for wheel in (path for folder in PYTHON for path in folder.iterdir()):
        content = wheel.read_bytes()
        project = re.sub("[-_.]+", "-", wheel.name.partition("-")[0]).lower()
        link = f'<a href="/wheels/{wheel.name}#sha256={hashlib.sha256(content).hexdigest()}">{wheel.name}</a>'
        page = f"/simple/{project}/"
        shelf[page] = shelf.get(page, b"<!DOCTYPE html>") + link.encode()
        shelf[f"/wheels/{wheel.name}"] = content
    return shelf


def push_projects() -> None:
    """Make a bare repository of each project."""
    for project in (DAY / "projects").iterdir():
        bare = FORGE / REPOSITORY.format(project.name)
        subprocess.run((*GIT, "init", "--quiet", "--bare", bare), check=True)
        subprocess.run(("git", "-C", bare, "config", "http.receivepack", "true"), check=True)
        into = (*GIT, f"--git-dir={bare}", f"--work-tree={project}")
        subprocess.run((*into, "add", "--all"), check=True)
        subprocess.run((*into, "commit", "--quiet", "--message=As published"), check=True)


class Visitor(SecureVisitor):
    """One connection to any of the hosts."""

    shelf: dict[str, bytes]
    token: str

    @override
    def answer_any(self) -> None:
        host, path = self.headers["Host"], self.path.partition("?")[0]
        if host == GIT_HOST:
            self.send_answer(asyncio.run(self.git()))
        elif path in self.shelf:
            body = self.shelf[path].replace(ANY_HOST.encode(), host.encode())
            self.send_answer(Answer(body=body, kind=self.kind(path)))
        else:
            super().answer_any()

    async def git(self) -> Answer:
        """Let git's server answer a client that has the token."""
        body, scheme = self.read_body(), self.headers.get("Authorization", "").partition(" ")
        if not base64.b64decode(scheme[2] or "").endswith(f":{self.token}".encode()):
            return Answer(status=401, body=b"who are you?")
        fields = {name.lower(): value for name, value in self.headers.items()}
        return await http_backend(FORGE, self.command, self.path, fields, body)

    def kind(self, path: str) -> str:
        """Return what a file of the registries is."""
        return "text/html" if path.endswith("/") else "application/json" if "/-/" not in path else "application/gzip"

    def send_answer(self, answer: Answer) -> None:
        """Send a whole answer."""
        print(json.dumps({"event": "request", "host": self.headers["Host"], "path": self.path}), flush=True)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        if answer.status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_HEAD = do_POST = answer_any  # noqa: N815


class Names(socketserver.BaseRequestHandler):
    """A name server for which every name has the same address, and no other record."""

    address = b""

    @override
    def handle(self) -> None:
        question, sender = self.request
        end = question.index(b"\0", 12) + 5
        wants_address = question[end - 4 : end - 2] == b"\0\1"
        head = question[:2] + b"\x81\x80\0\1" + (b"\0\1" if wants_address else b"\0\0") + b"\0\0\0\0"
        record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + self.address if wants_address else b""
        sender.sendto(head + question[12:end] + record, self.client_address)


def main() -> int:
    """Serve names and https, until ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cert", required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--token", required=True, help="what git must send as a password")
    options = parser.parse_args()
    push_projects()
    Visitor.token = options.token
    Visitor.shelf = npm_registry() | python_index()
    Names.address = bytes(int(part) for part in options.address.split("."))
    names = socketserver.ThreadingUDPServer((options.address, 53), Names)
    threading.Thread(target=names.serve_forever, daemon=True).start()
    ThreadingHTTPServer.daemon_threads = True
    secure = SecureServer((options.address, 443), Visitor)
    secure.context = tls_context(options.cert)
    print(json.dumps({"event": "listening"}), flush=True)
    secure.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
