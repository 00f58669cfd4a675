"""A git server over TLS on loopback, with git's own server behind it. Every request needs the token.

Every repository that is asked for exists, with one commit. `/o/old.git` has been renamed to `/o/new.git`. Large files
of github.com are on other hosts, with credentials of their own. Any other server has them beside the repository, and
repeats the credential of the request for them, as Gitea does. gitlab.com gives another one, which is good for all
repositories, and sends whoever fetches a file to another host.
"""

import asyncio
import json
import re
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, override

from fake_forge import http_backend
from fake_internet import SecureServer, tls_context

TOKEN = "ghp_0123456789abcdefghijOfTheOwner"
BASIC, BASIC_GIT, BASIC_GITLAB = (
    f"Basic {b64encode(f'{name}:{TOKEN}'.encode()).decode()}" for name in ("x-access-token", "git", "oauth2")
)
GITLAB, GITLAB_FILES, FOR_HOURS = "gitlab.com", "/gitlab-gprd-lfs-objects/", "Basic bWU6Z29vZCBmb3IgaG91cnM="
LFS, LFS_HOSTS = (
    "application/vnd.git-lfs+json",
    (
        "github-cloud.s3.amazonaws.com",
        "lfs.github.com",
        "github-cloud.githubusercontent.com",
        "storage.googleapis.com",
    ),
)
RENAMED = ("/o/old.git/", "/o/new.git/")
COMMIT = b"commit refs/heads/main\ncommitter A <a@example.org> 0 +0000\ndata 5\nfirst\nM 644 inline x\ndata 1\nx\n"


class GitServer(SecureServer):
    """The server: `seen` has the method, target and credential of each request."""

    root: Path
    seen: list[tuple[str, str, str]]
    large: dict[str, bytes]


class Visitor(BaseHTTPRequestHandler):
    """One connection."""

    server: GitServer

    def answer_any(self) -> None:
        """Answer as git's server does."""
        credential = self.headers.get("Authorization", "")
        self.server.seen.append((self.command, self.path, credential))
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        host = self.headers.get("Host", "")
        if host in LFS_HOSTS:
            self.send(*self.lfs(host, body))
        elif credential not in {BASIC, BASIC_GIT, BASIC_GITLAB, f"Bearer {TOKEN}"}:
            self.send(401, b"who are you?", "text/plain", ("WWW-Authenticate", 'Basic realm="git"'))
        elif self.path.startswith(RENAMED[0]):
            self.send(301, b"", "text/plain", ("Location", f"https://github.com{self.path.replace(*RENAMED)}"))
        elif host == GITLAB and self.command == "GET" and "/gitlab-lfs/" in self.path:
            place = f"https://storage.googleapis.com{GITLAB_FILES}{self.path.rpartition('/')[2]}"
            self.send(302, b"", "text/plain", ("Location", place))
        elif "/info/lfs/" in self.path or "/gitlab-lfs/" in self.path:
            self.send(*self.lfs(host, body))
        else:
            self.send(*asyncio.run(self.git(body)))

    def lfs(self, host: str, body: bytes) -> tuple[int, bytes, str]:
        """Answer as a server for large files."""
        name = re.sub(r".*objects/|.*/media/|/\d+\Z", "", self.path)
        if self.path.endswith("/objects/batch"):
            return 200, json.dumps(self.batch(host, json.loads(body))).encode(), LFS
        if "/locks" in self.path:
            return 200, b'{"ours": [], "theirs": [], "locks": []}', LFS
        if self.command == "PUT":
            self.server.large[name] = body
        return 200, self.server.large.get(name, b"{}"), LFS

    def batch(self, host: str, asked: dict[str, Any]) -> dict[str, object]:
        """Return where each large file is."""
        base, repeated = f"https://{host}{self.path.removesuffix('/objects/batch')}", self.headers["Authorization"]
        if host == GITLAB:
            base, repeated = base.replace("/info/lfs", "/gitlab-lfs"), FOR_HOURS
        own = {"Authorization": repeated}
        places = []
        for one in asked["objects"]:
            down = (f"{base}/objects/{one['oid']}", own)
            up, verify = (f"{down[0]}/{one['size']}", own), (f"{base}/verify", own)
            if host == "github.com":
                up, down = ((f"https://{LFS_HOSTS[at]}/alambic/media/{one['oid']}", {}) for at in (0, 2))
                verify = (f"https://{LFS_HOSTS[1]}/o/app/verify", {"Authorization": "RemoteAuth for-this-file"})
            verified = {} if host == GITLAB else {"verify": verify}
            actions = {"upload": up, **verified} if asked["operation"] == "upload" else {"download": down}
            links = {name: {"href": href, "header": header} for name, (href, header) in actions.items()}
            places.append({"oid": one["oid"], "size": one["size"], "authenticated": True, "actions": links})
        return {"transfer": "basic", "objects": places}

    async def git(self, body: bytes) -> tuple[int, bytes, str]:
        """Let git's server answer."""
        found = re.match(r"/([^/]+/[^/]+?)(?:\.git)?/", self.path)
        place = f"{found[1].lower()}.git" if found else "none"
        make(self.server.root / place)
        rest = self.path[found.end() :] if found else ""
        fields = {name.lower(): value for name, value in self.headers.items()}
        answer = await http_backend(self.server.root, self.command, f"/{place}/{rest}", fields, body)
        return answer.status, answer.body, answer.kind

    def send(self, status: int, body: bytes, kind: str, *fields: tuple[str, str]) -> None:
        """Send a whole answer."""
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *fields):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = answer_any  # noqa: N815

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


def make(place: Path) -> None:
    """Make a repository with one commit, if it is not there."""
    if not place.exists():
        subprocess.run(("git", "init", "--quiet", "--bare", "--initial-branch=main", place), check=True)
        subprocess.run(("git", "-C", place, "config", "http.receivepack", "true"), check=True)
        subprocess.run(("git", "-C", place, "fast-import", "--quiet"), input=COMMIT, check=True)


@contextmanager
def git_server(root: Path, certificate: Path) -> Iterator[GitServer]:
    """Serve the repositories below `root`."""
    server = GitServer(("127.0.0.1", 0), Visitor)
    server.context, server.root = tls_context(str(certificate)), root
    server.seen, server.large = [], {}
    with server.running():
        yield server
