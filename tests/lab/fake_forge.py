"""A forge: any repository that is asked for is there, by git's own server, and LFS objects beside it."""

import asyncio
import gzip
import json
import os
import subprocess
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/tmp/forge")  # noqa: S108 - in a container of its own
TOKEN = "a-token-of-nobodys"
LFS = "application/vnd.git-lfs+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer."""

    body: bytes
    status: int = 200
    kind: str = "application/octet-stream"


def repository(path: str) -> None:
    """Make the repository that contains a path, with one commit, unless it exists."""
    place = ROOT / path.split("/")[2]
    if not place.exists():
        subprocess.run(("git", "init", "--quiet", "--bare", "--initial-branch=main", place), check=True)
        subprocess.run(("git", "-C", place, "config", "http.receivepack", "true"), check=True)
        commit = b"commit refs/heads/main\ncommitter A <a@example.org> 0 +0000\ndata 5\nfirst\n"
        file = b"M 644 inline README\ndata 6\nhello\n"
        subprocess.run(("git", "-C", place, "fast-import", "--quiet"), input=commit + file, check=True)


async def git(method: str, path: str, query: str, fields: Mapping[str, str], body: bytes) -> Answer:
    """Let git's server answer; private repositories need the token."""
    if "private" in path and fields.get("authorization") != f"Basic {b64encode(f'bot:{TOKEN}'.encode()).decode()}":
        return Answer(status=401, body=b"who are you?")
    repository(path)
    return await http_backend(ROOT, method, f"{path.removeprefix('/git')}?{query}", fields, body)


def serve(path: str, service: str, fields: Mapping[str, str], body: bytes | None) -> Answer:
    """Serve a repository as `git http-backend` does, which the agent's image leaves out; no body asks for its refs."""
    repository(path)
    protocol = fields.get("git-protocol", "")
    refs = ("--http-backend-info-refs",) if body is None else ()
    if body and fields.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    command = ("git", service, "--stateless-rpc", *refs, ROOT / path.split("/")[2])
    environment = {**os.environ, "GIT_PROTOCOL": protocol}
    said = subprocess.run(command, input=body or b"", stdout=subprocess.PIPE, env=environment, check=False).stdout
    if body is None and protocol != "version=2":
        line = f"# service=git-{service}\n"
        said = f"{len(line) + 4:04x}{line}0000".encode() + said
    return Answer(body=said, kind=f"application/x-git-{service}-{'advertisement' if body is None else 'result'}")


async def http_backend(root: Path, method: str, url: str, fields: Mapping[str, str], body: bytes) -> Answer:
    """Let `git http-backend` answer for the repositories below `root`; `fields` are the header, in lower case."""
    path, _, query = url.partition("?")
    said = {"content-type": "CONTENT_TYPE", "content-encoding": "HTTP_CONTENT_ENCODING", "git-protocol": "GIT_PROTOCOL"}
    environment = {
        **os.environ,
        **{variable: fields[name] for name, variable in said.items() if name in fields},
        "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": method,
        "PATH_INFO": path, "QUERY_STRING": query, "CONTENT_LENGTH": str(len(body)),
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        "git", "http-backend", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=environment
    )
    head, _, rest = (await process.communicate(body))[0].partition(b"\r\n\r\n")
    lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    return Answer(status=int(lines.get("Status", "200")[:3]), body=rest, kind=lines.get("Content-Type", "text/plain"))


def lfs(method: str, path: str, body: bytes) -> Answer:
    """Answer with the URLs of objects, receive objects, and send them."""
    if path.endswith("/objects/batch"):
        return batch(path.removesuffix("/batch"), json.loads(body))
    kept = ROOT / f"{path.rsplit('/', 1)[1]}.lfs"
    if method == "PUT":
        ROOT.mkdir(exist_ok=True)
        kept.write_bytes(body)
        return Answer(body=b"")
    return Answer(body=kept.read_bytes()) if kept.exists() else Answer(status=404, kind=LFS, body=b'{"message": "no"}')


def batch(path: str, asked: dict[str, object]) -> Answer:
    """Answer where each object is."""
    objects: list[dict[str, object]] = asked["objects"]  # type: ignore[assignment] # what the protocol says
    places = [
        {**one, "actions": {asked["operation"]: {"href": f"https://work.test{path}/{one['oid']}"}}} for one in objects
    ]
    return Answer(kind=LFS, body=json.dumps({"transfer": "basic", "objects": places}).encode())
