"""A project, a clone of it, and commands for the clone that run in a directory here instead of in a container."""

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from agent_sandbox.engines.compose.plan import ComposePlanner
from agent_sandbox.engines.container import Container
from agent_sandbox.engines.drivers import load_driver
from agent_sandbox.engines.place import Place
from agent_sandbox.engines.protocol import Driver
from agent_sandbox.features.clones import clones
from agent_sandbox.features.clones.fetch import (
    MOST_BYTES,
    Branch,
    CloneStatus,
    checked_branches,
    read_status,
    write_branches,
)
from agent_sandbox.features.clones.fetched import Fetched
from agent_sandbox.features.clones.host_repository import HEADS, HostRepository, open_repository, start_of
from agent_sandbox.features.clones.listing import Listing
from agent_sandbox.features.clones.volume import CloneVolume
from agent_sandbox.host.command import Command
from agent_sandbox.problems import Problem
from agent_sandbox.project.clone_record import Clone
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project
from agent_sandbox.stack.recorded import Owner

QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_TEMPLATE_DIR": "", "LC_ALL": "C"}
WHO = ("-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "protocol.file.allow=always")
KILLED_WITHIN = 30.0


def git(folder: Path, *words: str, stdin: str = "") -> str:
    """Return what git prints in a directory."""
    argv = ("git", *WHO, "-C", str(folder), *words)
    done = subprocess.run(
        argv, input=stdin.encode(), capture_output=True, env={**os.environ, **QUIET}, check=True, timeout=300
    )
    return os.fsdecode(done.stdout).removesuffix("\n")


def commit(folder: Path, name: str = "a.txt", text: str = "text\n", message: str = "more") -> str:
    """Commit a file, and return the commit."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    git(folder, "add", "--force", "--", name)
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


@dataclass
class HereDriver:
    """Runs a command for a clone's container in a directory."""

    folder: Path
    temporary: Path
    planner: ComposePlanner = field(default_factory=ComposePlanner)
    steps: list[Command] = field(default_factory=list)
    # More variables of the container.
    inside: dict[str, str] = field(default_factory=dict)
    # The volumes of the project's own stack.
    volumes: tuple[str, ...] = ()
    # The containers of the clone's stack.
    containers: tuple[Container, ...] = ()

    def spawn(self, place: Place, *argv: str, stdin: bool = False, user: str = "") -> Command:
        """Run it in the directory, with the variables of the container."""
        self.steps.append(load_driver().spawn(place, *argv, stdin=stdin, user=user))
        variables = {**QUIET, "TMPDIR": str(self.temporary), **self.inside}
        words = (f"{name}={value}" for name, value in variables.items())
        return Command(argv=("/usr/bin/env", *words, *argv), cwd=self.folder)

    def leftovers(self, _project: str) -> dict[str, tuple[str, ...]]:
        """Have no volume of the project's own stack."""
        return {"volumes": self.volumes}

    def observe(self, _project: str, service: str = "") -> tuple[Container, ...]:
        """Return the containers of the clone's stack."""
        return tuple(one for one in self.containers if service in {"", one.service})

    def runs(self, service: str) -> bool:
        """Return whether a container of the clone's stack runs."""
        return any(one.state == "running" for one in self.observe("", service))

    def explain(self, _said: str, *, otherwise: Callable[[], Problem], **_doing: str) -> Problem:
        """Know no fault."""
        return otherwise()


@dataclass
class World:
    """A project with one commit on `main`, and a clone of it; `work` is what the clone's volume has."""

    host: Path
    work: Path
    driver: HereDriver
    volume: CloneVolume
    repository: HostRepository
    clone: Clone

    def status(self) -> CloneStatus:
        """Return the clone's branches and files."""
        return read_status(self.volume, self.clone, self.repository)

    def fetch(self, *, most: int = MOST_BYTES) -> tuple[Branch, ...]:
        """Fetch everything, and return the branches with new commits."""
        status = self.status()
        with checked_branches(self.volume, self.clone, self.repository, status, most=most) as (checked, branches):
            write_branches(self.repository, checked, branches, self.clone)
        return branches

    def fetched(self) -> dict[str, str]:
        """Return the fetched references."""
        return self.repository.references("refs/remotes/box/")


def make_world(folder: Path, host: Path | None = None) -> World:
    """Make a clone of a repository, by default a new one with one commit."""
    if host is None:
        host = folder / "host"
        host.mkdir()
        git(host, "init", "--quiet", "--initial-branch=main")
        commit(host, text="one\n")
    work, temporary, root = folder / "work", folder / "temporary", folder / "clones" / "fix-1"
    for one in (work, temporary, root):
        one.mkdir(parents=True)
    driver = HereDriver(work, temporary)
    project = Project(root=root, name="app-fix-1-1", agents=("claude",), owner=Owner(), images=("image:1",), files=())
    volume = CloneVolume(driver=cast("Driver", cast("Any", driver)), project=project, image="image:1")
    repository = open_repository(host)
    start = start_of(repository, host)
    volume.fill(repository, start, start.branch or "fix-1", {})
    started = {name: one for name, one in start.references.items() if name.startswith(HEADS)}
    clone = Clone(project=host, name="fix-1", root=root, title="app-fix-1", started=started)
    return World(host, work, driver, volume, repository, clone)


@contextmanager
def hostile_filter(clone: Path) -> Iterator[None]:
    """Have git in a clone run a filter that ignores all requests to end, and press Ctrl-C once it runs.

    It must be gone soon after the block has ended: the kernel needs a moment to kill it.
    """
    started = clone.parent / "filter.pid"
    filtering = f"trap '' INT TERM HUP; echo $$ >{shlex.quote(str(started))}; while :; do sleep 0.1; done"
    git(clone, "config", "filter.slow.clean", filtering)
    (clone / ".gitattributes").write_text("a.txt filter=slow\n")
    os.utime(clone / "a.txt", (1, 1))  # git compares the contents of a file with another time

    def interrupt() -> None:
        while not (started.exists() and started.read_text()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    person = threading.Thread(target=interrupt, daemon=True)
    person.start()
    yield
    end = time.monotonic() + KILLED_WITHIN
    while _is_running(int(started.read_text())):
        assert time.monotonic() < end
        time.sleep(0.01)


def _is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] not in ("X", "Z")
    except (FileNotFoundError, ProcessLookupError):
        return False


def fetched_clone(*, changed: tuple[str, ...] = (), complete: bool = True, refused: str = "") -> Fetched:
    """Return the result of fetching from a clone with two new commits."""
    clone = Clone(project=Path("/p"), name="fix-1", root=Path("/c/fix-1"), title="app-fix-1")
    branch = Branch(name="main", reference="refs/remotes/box/fix-1/main", commit="a" * 40, before="", commits=2, new=2)
    listing = Listing(
        branches={"main": branch.commit},
        stashes=frozenset(),
        refused={refused: "why"} if refused else {},
        head="main",
        changed=changed,
        ignored=("node_modules/",),
        complete=complete,
    )
    return Fetched(clone=clone, status=CloneStatus(branches=(branch,), listing=listing), branches=(branch,))


def with_clone_driver(project: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> HereDriver:
    """Make a project a repository with one commit, and run all commands for its clones here.

    Nothing is built, and no stack starts.
    """
    git(project, "init", "--quiet", "--initial-branch=main")
    commit(project, text="one\n")
    for name in ("work", "temporary"):
        (folder / name).mkdir(parents=True)
    made = HereDriver(folder / "work", folder / "temporary")
    monkeypatch.setattr(clones, "driver", lambda: made)
    monkeypatch.setattr(clones, "is_running", lambda _own, service: made.runs(service))
    monkeypatch.setattr(clones, "execute", lambda *_args, **_options: None)
    monkeypatch.setattr(clones, "backend", lambda: made.planner)
    return made


def with_clones(project: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> dict[str, Path]:
    """Make a project a repository, and these clones of it; return their directories by name."""
    with_clone_driver(project, folder, monkeypatch)
    roots = {}
    for name in names:
        made = clones.enter_clone(open_project(None, cwd=project), name, extra_ca=None, quiet=True)
        roots[name] = made.project.root
    return roots
