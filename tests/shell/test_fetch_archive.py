"""fetch-archive: download the agent's program over HTTPS and check the SHA-256 that its manifest names."""

import hashlib
import http.server
import io
import ssl
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import override

import pytest

from bash_harness import IMAGE, Shell
from certificates import make_authority

PROGRAM = b"#!/bin/sh\necho 1.2.3\n"


def archive() -> bytes:
    """Return a .tar.gz with the program, a symbolic link, and a path outside of the directory."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w:gz") as tar:
        for name in ("bin/agent", "../outside"):
            member = tarfile.TarInfo(name)
            member.size = len(PROGRAM)
            tar.addfile(member, io.BytesIO(PROGRAM))
        link = tarfile.TarInfo("bin/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return text.getvalue()


FILES = {"/agent.tar.gz": archive(), "/agent": PROGRAM}


class Downloads(http.server.BaseHTTPRequestHandler):
    """A stand-in for the site that the program is downloaded from."""

    def do_GET(self) -> None:
        """Serve the two files; /plain redirects to an address without TLS."""
        body = FILES.get(self.path, b"")
        self.send_response(302 if self.path == "/plain" else 200 if body else 404)
        if self.path == "/plain":
            self.send_header("Location", "http://127.0.0.1:9/agent")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Start the stand-in on loopback; return its address and the CA that signed for it."""
    folder = tmp_path_factory.mktemp("site")
    authority = make_authority(folder, ["localhost"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "leaf.pem")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Downloads) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"https://localhost:{server.server_port}", authority
        server.shutdown()


class Fetch:
    """Runs the program for one architecture."""

    def __init__(self, shell: Shell, site: tuple[str, Path]) -> None:
        self.shell, (self.address, self.authority) = shell, site
        self.target = shell.home / "opt" / "bin" / "agent"

    def __call__(
        self,
        path: str,
        *,
        program: str = "bin/agent",
        sha256: str = "",
        arch: str = "amd64",
        trusted: bool = True,
        own: str = "",
    ) -> CompletedProcess[str]:
        sha256 = sha256 or hashlib.sha256(FILES.get(path, b"")).hexdigest()
        (self.shell.home / "list").write_text(f"amd64 {sha256} {self.address}{path} {own}".rstrip() + "\n")
        return self.shell.run(
            *(IMAGE / "fetch-archive", "list", arch, program, self.target),
            check=False,
            AGENT_SANDBOX_EXTRA_CA_FILE=str(self.authority) if trusted else "/nothing",
            no_proxy="localhost",
        )


@pytest.fixture
def fetch(shell: Shell, site: tuple[str, Path]) -> Fetch:
    """Fetch into a scratch directory."""
    return Fetch(shell, site)


@pytest.mark.parametrize("path", FILES)
def test_installs_the_program_from_an_archive_or_a_plain_file(fetch: Fetch, path: str) -> None:
    done = fetch(path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (fetch.target.read_bytes(), fetch.target.stat().st_mode & 0o777) == (PROGRAM, 0o755)
    assert not (fetch.shell.home.parent / "outside").exists()


def test_program_of_one_architecture_can_have_another_path(fetch: Fetch) -> None:
    assert fetch("/agent.tar.gz", program="bin/none", own="bin/agent").returncode == 0
    assert fetch.target.read_bytes() == PROGRAM


def test_refuses_a_wrong_sha256_before_unpacking(fetch: Fetch) -> None:
    done = fetch("/agent.tar.gz", sha256="0" * 64)
    found = hashlib.sha256(FILES["/agent.tar.gz"]).hexdigest()
    said = f"agent-sandbox: the SHA-256 of {fetch.address}/agent.tar.gz is {found}, not {'0' * 64}\n"
    assert (done.returncode, done.stderr) == (1, said)
    assert not fetch.target.exists()


def test_reports_an_architecture_that_is_not_in_the_list(fetch: Fetch) -> None:
    done = fetch("/agent", arch="arm64")
    assert (done.returncode, done.stderr) == (1, "agent-sandbox: this agent has no program for arm64\n")


@pytest.mark.parametrize(("path", "says"), [("/gone", "404"), ("/plain", "rotocol")])
def test_fails_on_a_failed_download_and_on_a_redirect_to_http(fetch: Fetch, path: str, says: str) -> None:
    done = fetch(path, sha256="0" * 64)
    assert done.returncode != 0
    assert says in done.stderr
    assert not fetch.target.exists()


def test_fails_if_the_servers_certificate_is_not_trusted(fetch: Fetch) -> None:
    done = fetch("/agent", trusted=False)
    assert done.returncode != 0
    assert "certificate" in done.stderr


def test_does_not_follow_a_link_in_the_archive(fetch: Fetch) -> None:
    fetch("/agent.tar.gz", program="bin/link")
    assert not fetch.target.exists() or fetch.target.read_bytes() == b""
