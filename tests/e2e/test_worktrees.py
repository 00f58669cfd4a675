"""Worktrees of one repository, each in a sandbox: git works, and protected paths are read-only in all of them."""

import json
from pathlib import Path

import pytest

from engine import run
from real_stacks import Project, Projects

HOST_GIT = ("git", "-c", "safe.directory=*", "-c", "user.name=me", "-c", "user.email=me@example.com")
COMMIT = "git -c user.name=dev -c user.email=dev@example.com commit --quiet"


def host_git(folder: Path, *argv: str) -> str:
    """Run git on the host machine, and give the files to the user."""
    said = run(*HOST_GIT, *argv, cwd=folder).stdout
    run("chown", "-R", "1000:1000", str(folder))
    return said


@pytest.fixture(scope="module")
def origin(projects: Projects) -> Project:
    """The main worktree, with a running stack."""

    def fill(folder: Path) -> None:
        for argv in (("init",), ("commit", "--allow-empty", "--message=first"), ("pack-refs", "--all")):
            host_git(folder, *argv)
        (folder / ".git" / "config.worktree").write_text("")

    project = projects.make("main", "claude", fill=fill)
    project.sandbox("up")
    return project


@pytest.fixture(scope="module")
def main(origin: Project) -> Path:
    """The directory of the main worktree."""
    return origin.path


def worktree(projects: Projects, main: Path, name: str) -> Project:
    """Create a worktree and start a stack in it."""

    def fill(path: Path) -> None:
        host_git(main, "worktree", "add", "--quiet", str(path))

    project = projects.make(name, "claude", fill=fill)
    project.sandbox("up")
    return project


@pytest.fixture(scope="module")
def one(projects: Projects, main: Path) -> Project:
    """A worktree with a running stack."""
    return worktree(projects, main, "one")


@pytest.fixture(scope="module")
def two(projects: Projects, main: Path) -> Project:
    """Another worktree of the same repository, with a running stack."""
    return worktree(projects, main, "two")


def lost(project: Project) -> list[str]:
    return list(json.loads(project.sandbox("status", "--json").stdout)["workspace"]["lost"])


def test_status_lists_later_worktrees_as_unprotected_in_the_main_worktree_only(
    origin: Project, one: Project, two: Project
) -> None:
    """The next `init` and `up` in the main worktree would protect them."""
    told = {}
    for project in (origin, one, two):
        found = json.loads(project.sandbox("status", "--json").stdout)["workspace"]["unprotected"]
        told[project.path.name] = [gap["path"] for gap in found]
    entries = [f".git/worktrees/{name}/{file}" for name in ("one", "two") for file in ("commondir", "gitdir")]
    assert told == {"main": entries, "one": [], "two": []}


def test_agents_in_two_worktrees_of_a_repository_work_side_by_side(one: Project, two: Project, main: Path) -> None:
    for project in (one, two):
        name = project.path.name
        project.exec(
            *("sh", "-ec"),
            f"echo x >{name}; git add {name}; {COMMIT} --message={name}; git branch tmp-{name}; git stash list",
        )
        stashed = "echo y >y; git add y; git stash --quiet; git stash drop --quiet"
        again = f"{COMMIT} --allow-empty --message=again; git reset --quiet --soft HEAD^"
        assert project.exec("sh", "-ec", f"{stashed}; {again}").stderr == ""
        project.exec("git", "fetch", "--quiet", ".", f"{name}:copy-{name}")
        assert project.exec("git", "status", "--short").stdout == "?? .devcontainer/\n"
    assert two.exec("git", "log", "--format=%s", "-1", "one").stdout == "one\n"
    busy = two.exec("git", "switch", "one", check=False)
    assert "already used by worktree" in busy.stderr or "already checked out" in busy.stderr
    host_git(main, "fsck", "--strict")
    assert host_git(main, "log", "--format=%s", "two", "-1") == "two\n"
    assert run(*HOST_GIT, "status", "--short", cwd=one.path).stdout == "?? .devcontainer/\n"


@pytest.mark.parametrize(
    "path", ["config", "hooks/pre-commit", "config.worktree", "worktrees/one/commondir", "worktrees/one/gitdir",
             "worktrees/two/HEAD", "worktrees/two/gitdir", "worktrees/three/gitdir", "commondir", "HEAD", "index",
             "rebase-merge/git-rebase-todo", "modules/x/config", "remotes/origin", "gc.log", "info/attributes"]
)  # fmt: skip
@pytest.mark.usefixtures("two")
def test_the_agent_cannot_write_or_replace_git_files_that_the_host_machine_acts_on(
    one: Project, main: Path, path: str
) -> None:
    place = main / ".git" / path
    before = place.read_bytes() if place.exists() else None
    for command in (f"echo evil >>{place}", f"rm {place}", f"echo evil >/tmp/evil; mv /tmp/evil {place}"):
        assert one.exec("sh", "-c", command, check=False).returncode != 0, command
    assert before == (place.read_bytes() if place.exists() else None)
    assert lost(one) == []


@pytest.mark.parametrize("path", ["", "worktrees", "worktrees/one"])
def test_the_agent_cannot_move_the_git_directories(one: Project, main: Path, path: str) -> None:
    place = main / ".git" / path
    done = one.exec("mv", str(place), f"{place}-away", check=False)
    assert done.returncode != 0
    assert place.is_dir()


def test_git_worktree_prune_in_the_sandbox_keeps_the_worktree(one: Project, main: Path) -> None:
    one.exec("git", "worktree", "prune", check=False)
    assert run(*HOST_GIT, "status", "--short", cwd=one.path).stdout == "?? .devcontainer/\n"
    assert str(one.path) in host_git(main, "worktree", "list")


def test_git_explains_in_one_line_that_it_cannot_delete_a_branch_in_a_worktree(one: Project) -> None:
    one.exec("git", "branch", "gone")
    said = one.exec("git", "branch", "-d", "gone", check=False)
    assert said.returncode != 0
    why = "a sandbox of a worktree cannot delete or rename branches and tags: do it on the host machine"
    assert said.stderr == f"error: could not delete reference refs/heads/gone: {why}\n"


def test_git_settings_changed_on_the_host_machine_stay_read_only_in_all_worktrees(
    one: Project, two: Project, origin: Project
) -> None:
    """In the main worktree, the next command makes them read-only again."""
    config = origin.path / ".git" / "config"
    agents = [project.containers()["agent"]["Id"] for project in (one, two, origin)]
    host_git(origin.path, "remote", "add", "origin", "https://example.com/x.git")
    for project in (one, two):
        assert project.exec("git", "remote").stdout == "origin\n"
        assert project.exec("test", "-w", str(config), check=False).returncode == 1
        assert (project.sandbox("exec", "echo", "ran").stderr, lost(project)) == ("", [])
    assert "only harmless settings differ" in origin.sandbox("exec", "echo", "ran").stderr
    assert origin.exec("test", "-w", "/workspace/.git/config", check=False).returncode == 1
    assert one.exec("git", "remote").stdout == "origin\n"
    assert [project.containers()["agent"]["Id"] for project in (one, two, origin)] == agents
