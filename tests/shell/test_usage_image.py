"""images/usage: installs the program from a registry with the expected hash; the program reads agents' files."""

import base64
import hashlib
import http.server
import importlib.util
import io
import json
import os
import sqlite3
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType
from typing import override

import pytest

from bash_harness import Shell

IMAGE = Path(__file__).resolve().parents[2] / "images" / "usage"
PROGRAM = b"#!/bin/sh\necho 1.2.3\n"
NAME = "@ccusage/ccusage-linux-x64"


def package() -> bytes:
    """Return the package, with a path outside of the directory."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w:gz") as tar:
        for name in ("package/bin/ccusage", "../outside"):
            member = tarfile.TarInfo(name)
            member.size = len(PROGRAM)
            tar.addfile(member, io.BytesIO(PROGRAM))
    return text.getvalue()


PACKAGE = package()
INTEGRITY = f"sha512-{base64.b64encode(hashlib.sha512(PACKAGE).digest()).decode()}"


class Registry(http.server.BaseHTTPRequestHandler):
    """A stand-in for a registry of npm with one version of the package."""

    def do_GET(self) -> None:
        """Serve the metadata, and the package."""
        dist = {"tarball": f"http://{self.headers['Host']}/package.tgz", "integrity": INTEGRITY}
        found = json.dumps({"versions": {"1.0.0": {"dist": dist}}}).encode()
        body = {"/npm/@ccusage%2fccusage-linux-x64": found, "/package.tgz": PACKAGE}.get(self.path, b"")
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """Start the stand-in on loopback."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/npm/"
        server.shutdown()


def fetch(shell: Shell, registry: str, line: str, arch: str = "amd64") -> CompletedProcess[str]:
    (shell.home / "list").write_text(f"{line}\n")
    argv = (IMAGE / "fetch", "list", arch, shell.home / "ccusage")
    return shell.run(*argv, check=False, NPM_REGISTRY=registry, AGENT_SANDBOX_EXTRA_CA_FILE="/nothing")


@pytest.mark.parametrize("integrity", [INTEGRITY, ""], ids=["hash", "no hash"])
def test_installs_the_program_from_the_package(shell: Shell, registry: str, integrity: str) -> None:
    done = fetch(shell, registry, f"amd64 {NAME} 1.0.0 {integrity}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    target = shell.home / "ccusage"
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (PROGRAM, 0o755)
    assert not (shell.home.parent / "outside").exists()


def test_refuses_a_package_with_another_hash_before_unpacking(shell: Shell, registry: str) -> None:
    done = fetch(shell, registry, f"amd64 {NAME} 1.0.0 sha512-other")
    address = f"{registry.removesuffix('/npm/')}/package.tgz"
    said = f"agent-sandbox: the hash of {address} is {INTEGRITY}, not sha512-other\n"
    assert (done.returncode, done.stderr) == (1, said)
    assert not (shell.home / "ccusage").exists()


def test_reports_missing_versions_packages_architectures_and_registries(shell: Shell, registry: str) -> None:
    done = fetch(shell, registry, f"amd64 {NAME} 2.0.0")
    assert done.returncode == 1
    assert done.stderr.endswith(f"agent-sandbox: {registry} has no {NAME}@2.0.0\n")
    done = fetch(shell, registry, "amd64 other 1.0.0")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"agent-sandbox: cannot download {registry}other")
    done = fetch(shell, registry, f"amd64 {NAME} 1.0.0", arch="riscv64")
    assert (done.returncode, done.stderr) == (1, "agent-sandbox: there is no program for riscv64\n")
    said = "no npm registry is known: install npm, or set npm_config_registry to the address of one"
    done = fetch(shell, "", f"amd64 {NAME} 1.0.0")
    assert (done.returncode, done.stderr) == (1, f"agent-sandbox: {said}\n")


@pytest.fixture(scope="module")
def count() -> ModuleType:
    """Load the program that runs in the container."""
    spec = importlib.util.spec_from_file_location("count", IMAGE / "count.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_copies_databases_and_links_everything_else(count: ModuleType, tmp_path: Path) -> None:
    state, home = tmp_path / "state", tmp_path / "home"
    (state / ".example" / "sessions").mkdir(parents=True)
    (state / ".local" / "share" / "example" / "storage").mkdir(parents=True)
    database = state / ".local" / "share" / "example" / "example.db"
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE a (b)")
        writer.execute("INSERT INTO a VALUES (1)")
        writer.commit()
        assert database.with_name("example.db-wal").exists()
        count.gather(str(state), str(home))
    copy = home / ".local" / "share" / "example" / "example.db"
    with closing(sqlite3.connect(copy)) as reader:
        assert reader.execute("SELECT count(*) FROM a").fetchone() == (1,)
    assert not copy.is_symlink()
    links = {str(one.relative_to(home)) for one in home.rglob("*") if one.is_symlink()}
    assert links == {".example", ".local/share/example/storage"}


def test_does_not_follow_links_read_pipes_or_search_too_deep(
    count: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state, home = tmp_path / "state", tmp_path / "home"
    deep = state / ".example" / "/".join(["d"] * (count.DEEPEST + 1))
    deep.mkdir(parents=True)
    (deep / "a.db").write_text("too deep to be found")
    (state / "there").mkdir()
    (state / "there" / "link.db").symlink_to("/dev/zero")
    (state / "there" / "out").symlink_to("/")
    (state / "there" / "a.db").write_text("a")
    (state / "there" / "full.db").write_text("x")
    os.mkfifo(state / "there" / "pipe.db")

    def copied(source: io.BufferedReader, target: io.BufferedWriter) -> None:
        data = source.read()
        if data == b"x":
            raise OSError(28, "No space left on device")
        target.write(data)

    monkeypatch.setattr(count.shutil, "copyfileobj", copied)
    count.gather(str(state), str(home))
    assert (home / ".example").is_symlink()
    assert sorted(one.name for one in (home / "there").iterdir()) == ["a.db"]
    assert (home / "there" / "a.db").read_text() == "a"
    assert capsys.readouterr().err == f"{state}/there/full.db: No space left on device\n"
