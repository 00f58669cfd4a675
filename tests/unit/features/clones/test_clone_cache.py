import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.features.clones import clone_cache
from agent_sandbox.features.clones.clone_cache import COPY, NOT_KEPT, bring_cache, cache_key, keep_cache
from agent_sandbox.features.clones.clones import EnteredClone, enter_clone
from agent_sandbox.features.clones.host_repository import open_repository, start_of
from agent_sandbox.host.command import Command
from agent_sandbox.host.user_dirs import config_directory
from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import Clone, clones_of
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.formats.faithful import load_yaml
from clone_worlds import HereDriver, commit, with_clone_driver

KEY = "1" * 64


@pytest.fixture
def driver(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> HereDriver:
    made = with_clone_driver(project, tmp_path_factory.mktemp("clone"), monkeypatch)
    monkeypatch.setattr(clone_cache, "driver", lambda: made)
    return made


@pytest.fixture
def copies(driver: HereDriver, monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    found: list[Command] = []
    monkeypatch.setattr(clone_cache, "run_helper", lambda *_, **_options: found.append(driver.steps[-1]))
    return found


def enter(name: str) -> tuple[Project, Clone]:
    made = enter_clone(open_project(None, cwd=Path.cwd()), name, extra_ca=None, quiet=True).project
    return made, next(one for one in clones_of(Path.cwd(), os.environ) if one.name == name)


def copied(copies: list[Command]) -> Iterator[tuple[str, ...]]:
    for made in copies:
        assert "--user 1000:1000 " in str(made)
        mounts = [word.split(",") for word in made.argv if word.startswith("type=volume")]
        assert [("readonly" in mount) for mount in mounts] == [True, False]
        yield tuple(parts[1].removeprefix("source=").rpartition("_")[2] for parts in mounts)


def test_the_cache_key_depends_on_the_script_the_policies_and_the_commit(project: Path, driver: HereDriver) -> None:
    own, _ = enter("fix-1")
    repository = open_repository(project)
    with_script = replace(own, setup="s.sh", made_of={"s.sh": "npm ci"})

    def key(one: Project, **files: str) -> str:
        for name, text in files.items():
            own.policy.with_name(name).write_text(text)
        return cache_key(one, repository, start_of(repository, project))

    first = key(with_script)
    assert key(own) == ""  # without a script, only the agent fills the caches
    others = [
        key(replace(with_script, made_of={"s.sh": "npm install"})),
        key(replace(with_script, made_of={"s.sh": "npm ci", "sandbox.yaml": "environment: {A: b}"})),
        key(with_script, **{"policy.yaml": "domains_file: hosts", "hosts": "a.test"}),
        key(with_script, hosts="b.test"),
        key(with_script, **{"policy.yaml": "domains: ["}),
    ]
    assert others[-1] == ""
    user = config_directory(os.environ)
    assert user is not None
    user.mkdir(parents=True, exist_ok=True)
    (user / "policy.yaml").write_text("deny: [evil.test]")
    others.append(key(with_script, **{"policy.yaml": "domains_file: hosts"}))
    commit(project, name="b.txt")
    assert len({first, *others, key(with_script)}) == 8
    assert driver.steps


def test_a_new_clone_starts_with_the_setup_cache_of_an_earlier_clone(
    project: Path, driver: HereDriver, copies: list[Command]
) -> None:
    first, one = enter("fix-1")
    second, two = enter("fix-2")
    assert not bring_cache(second, two, "image:1", KEY)
    keep_cache(first, one, "image:1", KEY)
    driver.volumes = (f"{first.name}_setup-cache",)
    two = next(clone for clone in clones_of(project, os.environ) if clone.name == "fix-2")
    assert bring_cache(second, two, "image:1", KEY)
    assert [*copied(copies)] == [("home-cache", "setup-cache"), ("setup-cache", "home-cache")]


@pytest.mark.parametrize(("key", "volumes"), [("2" * 64, True), ("", True), (KEY, False)])
def test_does_not_use_a_cache_with_another_key_or_a_missing_volume(
    driver: HereDriver, copies: list[Command], key: str, *, volumes: bool
) -> None:
    first, one = enter("fix-1")
    keep_cache(first, one, "image:1", KEY)
    driver.volumes = (f"{first.name}_setup-cache",) if volumes else ()
    second, two = enter("fix-2")
    copies.clear()
    assert not bring_cache(second, two, "image:1", key)
    assert copies == []


def test_does_not_record_a_cache_that_could_not_be_copied(
    project: Path, driver: HereDriver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **_options: object) -> None:
        raise UserError([])

    own, clone = enter("fix-1")
    monkeypatch.setattr(clone_cache, "run_helper", fail)
    keep_cache(own, clone, "image:1", KEY)
    assert capsys.readouterr().err == f"{NOT_KEPT}\n"
    assert [one.cache for one in clones_of(project, os.environ)] == [""]
    assert driver.steps


def test_keeps_only_the_cache_of_a_new_clone_that_started_without_one(
    project: Path, driver: HereDriver, copies: list[Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_sandbox.features.clones.clones.cache_key", lambda *_: KEY)

    def entered(name: str) -> EnteredClone:
        return enter_clone(open_project(None, cwd=project), name, extra_ca=None, quiet=True)

    first = entered("fix-1")
    assert first.keep is not None
    assert entered("fix-1").keep is None
    assert first.project is not None
    first.keep()
    driver.volumes = (f"{first.project.name}_setup-cache",)
    assert entered("fix-2").keep is None
    assert len(copies) == 2


def test_a_clone_mounts_only_its_own_caches(driver: HereDriver) -> None:
    own, _ = enter("fix-1")
    document = load_yaml((own.root / ".devcontainer" / "docker-compose.yml").read_text())
    volumes = [one for service in document["services"].values() for one in service.get("volumes", ())]
    assert "setup-cache" not in json.dumps(document)
    assert [one["source"] for one in volumes if one["target"] == "/home/dev/.cache"] == ["home-cache"]
    assert document["volumes"]["home-cache"]["name"] == f"{own.name}_home-cache"
    assert driver.steps


def test_copying_a_cache_replaces_the_target_even_if_it_is_read_only(tmp_path: Path) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    for folder, name in ((source, "new"), (target, "old")):
        (folder / "mod").mkdir(parents=True)
        (folder / "mod" / name).write_text(name)
        (folder / "mod").chmod(0o555)
    script = COPY.replace("/from", str(source))
    subprocess.run(["sh", "-c", script], cwd=target, check=True, timeout=30)
    assert [path.name for path in (target / "mod").iterdir()] == ["new"]
    assert subprocess.run(["sh", "-c", script.replace("4096", "0")], cwd=target, check=False).returncode == 1
    assert [path.name for path in (target / "mod").iterdir()] == ["new"]
