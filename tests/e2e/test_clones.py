"""Clones on a real Docker engine: the agent commits in a volume, and `fetch` brings the commits back."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine import agent_sandbox, proxy_image, run
from real_stacks import trust

HOST_GIT = ("git", "-c", "user.name=me", "-c", "user.email=me@example.com")
COMMIT = "git -c user.name=dev -c user.email=dev@example.com commit --quiet --all --message"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A project whose own stack never runs, and a clone of it named fix-1."""
    proxy_image()
    folder = tmp_path / "cloned"
    folder.mkdir()
    run(*HOST_GIT, "init", "--quiet", "--initial-branch=main", cwd=folder)
    (folder / "a.txt").write_text("one\n")
    run(*HOST_GIT, "add", ".", cwd=folder)
    run(*HOST_GIT, "commit", "--quiet", "--message=first", cwd=folder)
    agent_sandbox("run", "claude", "--clone", "--name", "fix-1", "--", "--version", cwd=folder)
    yield folder
    agent_sandbox("destroy", "--path", "fix-1", "--yes", cwd=folder, check=False)


# Each clone commits on its branch. The first one also adds names that `fetch` must refuse or escape, and a stash.
WORK = f"""
set -e
printf 'all:\\n\\ttrue\\n' >Makefile; git add Makefile; {COMMIT} 'by NAME'
[ NAME = fix-1 ] || exit 0
git update-ref refs/heads/zero$(printf '\\342\\200\\213')width HEAD
: >"$(printf 'screen\\033[2J')"
echo stashed >a.txt; git -c user.name=dev -c user.email=dev@example.com stash push --quiet
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ten:
    """Ten running clones: eight of one project, one of a shallow and one of a partial one. `clones` names projects."""

    projects: dict[str, Path]
    clones: dict[str, str]

    def sandbox(self, clone: str, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run agent-sandbox in the project of a clone."""
        return agent_sandbox(*argv, cwd=self.projects[self.clones[clone]], check=check)

    def of_all(self, *argv: str, check: bool = True) -> None:
        """Run a command for each clone, two at a time; `NAME` is the clone's name."""

        def of_one(name: str) -> subprocess.CompletedProcess[str]:
            return self.sandbox(name, *(one.replace("NAME", name) for one in argv), check=check)

        with ThreadPoolExecutor(2) as pool:
            assert len([*pool.map(of_one, self.clones)]) == len(self.clones)


@pytest.fixture
def ten(project: Path, tmp_path: Path) -> Iterator[Ten]:
    """Start all ten clones."""
    run(*HOST_GIT, "commit", "--quiet", "--allow-empty", "--message=second", cwd=project)
    kinds = {"shallow": ("--depth=1",), "partial": ("--filter=blob:none",)}
    projects = {"many": project, **{name: tmp_path / name for name in kinds}}
    run(*HOST_GIT, "config", "uploadpack.allowFilter", "true", cwd=project)
    for name, options in kinds.items():
        run(*HOST_GIT, "clone", "--quiet", *options, project.as_uri(), str(projects[name]))
    others = {f"many-{number}": "many" for number in range(1, 8)} | {f"{kind}-1": kind for kind in kinds}
    started = Ten(projects=projects, clones=others)
    try:
        started.of_all("run", "claude", "--clone", "--name", "NAME", "--", "--version")
        yield Ten(projects=projects, clones={"fix-1": "many", **others})
    finally:
        started.of_all("destroy", "--path", "NAME", "--yes", check=False)


@pytest.mark.nightly
def test_ten_clones_run_at_once_and_their_work_is_fetched(ten: Ten) -> None:
    listed = json.loads(ten.sandbox("many-1", "ls", "--json").stdout)["stacks"]
    ours = {one["clone"]["name"]: one for one in listed if one["clone"] and one["clone"]["name"] in ten.clones}
    assert {name: one["state"] for name, one in ours.items()} == dict.fromkeys(ten.clones, "running")
    assert all(0 < one["disk"] < 100_000_000 and one["memory"] > 0 for one in ours.values())
    ten.of_all("exec", "--path", "NAME", "--", "sh", "-c", WORK)

    with ThreadPoolExecutor(2) as pool:  # two fetches of all clones at once
        both = [pool.submit(ten.sandbox, "many-1", "fetch", check=False) for _ in range(2)]
    said = "".join(one.result().stdout + one.result().stderr for one in both)
    again = ten.sandbox("many-1", "fetch", check=False)
    assert again.stdout.count("nothing new to fetch") == 8, said
    assert "  refused: zero\\u200bwidth: its name contains invisible characters\n" in again.stdout
    assert "  not committed: 1 file: screen\\x1b[2J\n" in again.stdout
    assert ten.sandbox("shallow-1", "fetch").stdout == "box/shallow-1/main  1 new commit\n"
    assert ten.sandbox("partial-1", "fetch").stdout.startswith("box/partial-1/main  1 new commit\n")
    shown = ten.sandbox("many-7", "diff", "many-7", "--stat").stdout.splitlines()
    assert shown[:2] == ["main  1 commit", " Makefile | 2 ++"]

    main = ten.projects["many"]
    references = run(*HOST_GIT, "for-each-ref", "--format=%(refname)", "refs/remotes/box", cwd=main).stdout.split()
    (stash,) = (one for one in references if "/stash-" in one)
    assert {*references} == {
        stash,
        "refs/remotes/box/fix-1/main",
        *(f"refs/remotes/box/many-{number}/main" for number in range(1, 8)),
    }
    run(*HOST_GIT, "fsck", "--strict", cwd=main)
    run(*HOST_GIT, "merge", "--quiet", "--no-edit", "box/fix-1/main", cwd=main)
    run(*HOST_GIT, "stash", "apply", "--quiet", stash, cwd=main)
    assert (main / "a.txt").read_text() == "stashed\n"
    reviewed = ten.sandbox("many-1", "review", check=False)
    assert (reviewed.returncode, "  new      Makefile" in reviewed.stdout.splitlines()) == (1, True)
    running = "its clones still run: fix-1, many-1, many-2, many-3, many-4 and 3 more; to stop one: "
    assert running in ten.sandbox("many-1", "down").stderr


def test_run_rm_fetches_and_removes_its_clone_unless_work_would_be_lost(project: Path) -> None:
    commit = "git -c user.name=x -c user.email=x@example.com commit --allow-empty"
    script = project / "setup.sh"
    script.write_text(f"#!/bin/sh\n{commit} --message=work\necho all: >Makefile\n")
    script.chmod(0o755)
    (project / ".devcontainer" / "sandbox.yaml").write_text("version: 1\nsetup: setup.sh\n")
    run(*HOST_GIT, "add", "setup.sh", cwd=project)
    run(*HOST_GIT, "commit", "--quiet", "--message=second", cwd=project)
    trust(project)
    once = ("run", "--rm", "--clone")
    done = agent_sandbox(*once, "--json", "--quiet", "--", "--version", cwd=project)
    found = json.loads(done.stdout)
    assert "(Claude Code)" in found["result"]
    assert [(one["ref"], one["new"]) for one in found["clone"]["branches"]] == [("refs/remotes/box/clone-1/main", 1)]
    assert (found["clone"]["uncommitted"], found["clone"]["kept"]) == (["Makefile"], True)
    assert done.stderr.startswith("kept: the clone clone-1 has work that was not fetched\n")
    agent_sandbox("destroy", "--path", "clone-1", "--yes", cwd=project)
    script.write_text(f"#!/bin/sh\n{commit} --message=more\n")
    run(*HOST_GIT, "commit", "--quiet", "--all", "--message=third", cwd=project)
    trust(project)
    last = agent_sandbox(*once, "--", "--no-such-option", cwd=project, check=False)
    assert (last.returncode, "box/clone-2/main  1 new commit\n" in last.stderr) == (1, True), last.stderr
    listed = json.loads(agent_sandbox("ls", "--json", cwd=project).stdout)["stacks"]
    of_clones = [one for one in listed if one["clone"] and one["clone"]["project"] == str(project.resolve())]
    assert [one["clone"]["name"] for one in of_clones] == ["fix-1"]
    assert_ctrl_c_ends_a_fetch(project, f"{of_clones[0]['name']}_workspace")


# Git waits for this filter to end, even after a signal.
ENDLESS = """
git config filter.slow.process "trap '' INT TERM HUP; while :; do sleep 1; done"
echo 'a.txt filter=slow' >.git/info/attributes
touch -d tomorrow a.txt
"""


def assert_ctrl_c_ends_a_fetch(project: Path, volume: str) -> None:
    agent_sandbox("exec", "--path", "fix-1", "--", "sh", "-c", ENDLESS, cwd=project)
    run("docker", "volume", "inspect", volume)  # with a wrong name, no container would be found below

    def containers() -> set[str]:
        return {*run("docker", "ps", "--quiet", f"--filter=volume={volume}").stdout.split()}

    before = containers()
    argv = (sys.executable, "-P", "-m", "agent_sandbox", "fetch", "fix-1")
    with subprocess.Popen(argv, cwd=project, stderr=subprocess.PIPE, text=True, start_new_session=True) as fetching:
        while not any("sleep 1" in run("docker", "top", one).stdout for one in containers() - before):
            time.sleep(0.1)
        started = time.monotonic()
        fetching.send_signal(signal.SIGINT)
        said = fetching.communicate(timeout=30)[1]
    assert (fetching.returncode, said, containers()) == (
        130,
        "interrupted: the clone fix-1 is unchanged; run the command again to fetch the rest\n",
        before,
    )
    assert time.monotonic() - started < 10
    agent_sandbox("exec", "--path", "fix-1", "--", "rm", ".git/info/attributes", cwd=project)
