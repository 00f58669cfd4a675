"""`prune`: list what no project uses with its size, and remove it after confirmation."""

import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.engines.container import Container, StackFound, Usage
from agent_sandbox.engines.protocol import Driver
from agent_sandbox.features.stack.commands.prune import Prunable, find_prunable, prune
from agent_sandbox.images import base_name, usage_name
from agent_sandbox.project.installed import read_project
from agent_sandbox.project.render.paths import STACK
from agent_sandbox.project.trust_snapshot import Standing
from agent_sandbox.project.trust_store import Store
from agent_sandbox.stack.naming import stack_name
from fake_docker import FakeDocker
from fake_tty import Person

PROJECT = "com.docker.compose.project"
OLD = ("agent-sandbox/project:0123456789abcdef", "agent-sandbox/old:0.0.9")
# Images built on ours inherit the label; anyone can write the labels of a volume.
FORGED = ("theirs/app:1", "agent-sandbox-evil/app:1")
USED, FREE = "agent-sandbox/example:1", "agent-sandbox/example:0"


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a cached policy of 1000 bytes, outside the project."""
    home = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    folder = home / "agent-sandbox" / "policies"
    folder.mkdir(parents=True)
    (folder / "a").write_text("x" * 1000)
    return folder


@pytest.fixture
def machine(project: Path, docker: FakeDocker, cache: Path) -> FakeDocker:
    """Fake a trusted project, its images, and others."""
    assert cache.exists()
    needed = {*read_project(project).images, base_name(), usage_name()}
    images = [*sorted(needed), *OLD, *FORGED, "agent-sandbox/used:1"]
    volumes = ["app-1 app-1_ca-private", "app-1 app-1_state", "other other_ca-private", "other forged"]
    sizes = [{"Repository": OLD[0].split(":")[0], "Tag": OLD[0].split(":")[1], "UniqueSize": "41MB"}]
    docker.says("volume ls", out="\n".join(volumes))
    docker.says("ps --all --quiet")
    docker.says("ps --all --format", out="1 agent-sandbox/used:1\n2 postgres\n")
    docker.says("image ls --filter label=agent-sandbox.digest", out="\n".join(images))
    docker.says("df --verbose --format {{json .Images}}", out=json.dumps(sizes))
    docker.says("df --verbose", out=json.dumps([{"Name": "app-1_state", "Size": "2MB", "Labels": ""}]))
    docker.says("image inspect", out=json.dumps({"tags": [OLD[1]], "labels": {}}))
    return docker.says("image rm").says("compose").says("volume prune")


def removed(docker: FakeDocker) -> list[str]:
    words = ("image rm ", "volume prune ", "down ")
    return [call for call in docker.calls if any(word in call for word in words)]


def test_removes_only_unused_images_and_cached_policies(
    machine: FakeDocker, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(lambda: prune(yes=True)) == 0
    assert removed(machine) == [f"image rm {OLD[1]}", f"image rm {OLD[0]}"]
    assert list(cache.iterdir()) == []
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "images that no project uses, without shared layers:",
        f"  {OLD[1]:<38}  size unknown",
        f"  {OLD[0]}  41 MB",
        "cached policies:",
        f"  {cache}  1 kB",
        "in total, at least 41 MB",
    ]
    assert told.err == f"removed, except images that a container uses: {OLD[1]}\n"


def test_removes_a_stack_whose_directory_is_gone_with_its_images(
    machine: FakeDocker, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    images = read_project(project).images
    monkeypatch.chdir(project.parent)
    shutil.rmtree(project)
    assert exit_code(lambda: prune(yes=True, quiet=True)) == 0
    stacks, names = removed(machine)[:2], removed(machine)[2:]
    assert [call.split()[2] for call in stacks[:1]] == ["app-1"]
    assert stacks[1].endswith(f"label={PROJECT}=app-1")
    assert {name.removeprefix("image rm ") for name in names} == {*images, base_name(), usage_name(), *OLD}
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_asks_for_confirmation_at_a_terminal(
    machine: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, code: int
) -> None:
    monkeypatch.setattr(sys, "stdin", Person(typed))
    assert exit_code(lambda: prune(quiet=True)) == code
    assert bool(removed(machine)) == (code == 0)
    assert capsys.readouterr().err == "Remove all of it? [y/N] " + ("nothing was removed\n" if code else "")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "error: prune: cannot be confirmed without a terminal\n  hint: agent-sandbox prune --yes, or --dry-run\n"),
        ({"as_json": True}, "error: --json: cannot ask for confirmation\n  hint: add --dry-run or --yes\n"),
    ],
)
def test_removes_nothing_without_confirmation(
    machine: FakeDocker, capsys: pytest.CaptureFixture[str], options: dict[str, Any], error: str
) -> None:
    assert exit_code(lambda: prune(**options)) == 1
    assert (capsys.readouterr().err, removed(machine)) == (error, [])


def test_json_output_has_every_field(machine: FakeDocker, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: prune(as_json=True, dry_run=True)) == 0
    assert json.loads(capsys.readouterr().out) == {
        "stacks": [],
        "images": [{"name": OLD[1], "size": None}, {"name": OLD[0], "size": 41_000_000}],
        "cache": {"files": 1, "size": 1000},
        "size": 41_001_000,
        "removed": False,
        "kept": [],
    }
    assert (removed(machine), [one.name for one in cache.iterdir()]) == ([], ["a"])


def test_reports_that_there_is_nothing_to_remove(
    docker: FakeDocker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    docker.says("volume ls").says("ps --all").says("image ls").says("df --verbose", code=1)
    assert exit_code(prune) == 0
    said = "nothing to remove: all that agent-sandbox made on this Docker engine is in use\n"
    assert capsys.readouterr() == (said, "")


def test_removes_symbolic_links_in_the_cache_without_following_them(
    machine: FakeDocker, cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("")
    (cache / "folder").symlink_to(tmp_path / "mine")
    (cache / "link").symlink_to(tmp_path / "mine" / "file")
    assert exit_code(lambda: prune(yes=True, quiet=True)) == 0
    assert (tmp_path / "mine" / "file").exists()
    assert not os.path.lexists(cache / "link")
    assert removed(machine)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory beside another one."""
    (tmp_path / "src" / "beside").mkdir(parents=True)
    (tmp_path / "src" / "app").mkdir()
    return tmp_path / "src" / "app"


@pytest.fixture
def store(tmp_path: Path, root: Path) -> Store:
    """Trust the directory's stack, made by another version: only its file names the image that it uses."""
    found = Store(folder=tmp_path / "trust", owners=frozenset({os.geteuid()}))
    text = f"name: {stack_name('app', str(root))}\nx-agent-sandbox: {{agent: example, dev: 1000:1000}}\n"
    text += f"services: {{agent: {{image: {USED}}}}}\n"
    found.save(Standing(root=root, owner=None, stack_files=(STACK,), files={STACK: text}))
    return found


def driver(root: Path) -> Driver:
    agent = Container(id="1", service="agent", image=USED, state="running")
    stack = StackFound(name=stack_name("app", str(root)), containers=(agent,), volumes=("v",))

    def own_images(*, leaving: tuple[str, ...] = ()) -> dict[str, int | None]:
        return {name: 1 for name in (USED, FREE, base_name()) if name != USED or "1" in leaving}

    made = SimpleNamespace(
        stacks=lambda: (stack,), usage=lambda _found: Usage(memory=None, disk={"v": 7}), own_images=own_images
    )
    return cast("Driver", made)


def test_keeps_the_stack_and_images_that_a_project_uses(root: Path, store: Store) -> None:
    assert find_prunable(driver(root), store, {}) == Prunable(stacks={}, images={FREE: 1}, cache={})


def test_finds_the_stack_and_images_of_a_removed_directory(root: Path, store: Store) -> None:
    shutil.rmtree(root)
    found = find_prunable(driver(root), store, {})
    assert (dict(found.stacks), set(found.images)) == ({stack_name("app", str(root)): 7}, {USED, FREE, base_name()})
    assert found.total == 10


def test_keeps_the_images_of_a_directory_whose_parent_is_missing(root: Path, store: Store) -> None:
    shutil.rmtree(root.parent)
    assert set(find_prunable(driver(root), store, {}).images) == {FREE}


def test_an_empty_result_is_falsy() -> None:
    assert not Prunable(stacks={}, images={}, cache={})


def test_finds_no_cache_files_behind_a_link_or_where_an_agent_can_write(root: Path, store: Store) -> None:
    others, cache = root / "documents", root / "cache" / "agent-sandbox"
    others.mkdir()
    (others / "letter").write_text("mine")
    cache.parent.mkdir()
    cache.symlink_to(others)
    environ = {"XDG_CACHE_HOME": str(cache.parent)}
    assert not find_prunable(driver(root), store, environ).cache
    cache.unlink()
    others.rename(cache)
    assert find_prunable(driver(root), store, environ).cache == {cache / "letter": 4}
    (root / ".devcontainer").mkdir()
    assert not find_prunable(driver(root), store, environ).cache
