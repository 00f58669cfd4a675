import io
import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.proxy import reload_policy
from agent_sandbox.features.proxy.secrets import Held
from agent_sandbox.features.secrets.commands.remove import remove
from agent_sandbox.features.secrets.secret_sources import store
from agent_sandbox.features.secrets.secret_store import ask_store, in_clones, secrets_of
from agent_sandbox.features.secrets.sources.recipes import recipes_of
from agent_sandbox.policytools.unset_secrets import Bound
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.clone_record import new_clone, save_clone
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project
from clone_worlds import with_clones
from fake_docker import FakeDocker
from fake_stack import with_running

VALUE = "correct-horse-battery"
SECRET = Bound(name="a", hosts=("a.test",))


def test_does_not_start_an_untrusted_stack_for_its_secrets(project: Path, docker: FakeDocker) -> None:
    docker.says("ps --all")
    untrusted = replace(open_project(project, cwd=project), files=())
    with pytest.raises(UserError, match="the stack is not running"):
        ask_store(untrusted, "remove", "a")
    assert secrets_of(untrusted) == ()
    assert [call for call in docker.calls if " run " in call] == []


@pytest.fixture
def clones(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Have the clones fix-1 and fix-2, and one that was never filled."""
    made = with_clones(project, tmp_path_factory.mktemp("clones"), monkeypatch, "fix-1", "fix-2")
    save_clone(new_clone(project, "fix-3", os.environ, title="app"))
    return made


@pytest.fixture
def running(clones: dict[str, Path], docker: FakeDocker) -> FakeDocker:
    """Fake running proxies of the project and its clones, and record what each one receives."""
    assert clones
    docker.says("secret set", script=f"cat >>{docker.folder}/told; echo >>{docker.folder}/told")
    return with_running(docker, "app-")


def asked(docker: FakeDocker, verb: str) -> list[str]:
    """Return the stacks that were asked to do this."""
    return [call.split()[2].rpartition("-")[0] for call in docker.calls if f" secret {verb} " in call]


def test_a_value_is_asked_for_once_and_stored_in_all_clones(
    project: Path, running: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{VALUE}\n".encode())))
    capsys.readouterr()
    assert store(open_project(None, cwd=project), SECRET, "")
    assert asked(running, "set") == ["app", "app-fix-1", "app-fix-2"]
    assert (running.folder / "told").read_text() == f"{VALUE}\n" * 3
    assert capsys.readouterr().err == "a was set in its clones, too: fix-1, fix-2\n"


def test_stores_a_source_for_all_clones_and_fetches_it_for_running_clones(
    project: Path, clones: dict[str, Path], docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", VALUE)
    with_running(docker.says("secret set"), "app-fix-2-")
    assert not store(open_project(None, cwd=project), SECRET, "env:A_KEY")
    assert asked(docker, "set") == ["app-fix-2"]
    assert [recipes_of(root, os.environ).load()[0].source for root in (project, *clones.values())] == ["env:A_KEY"] * 3


def test_setting_a_secret_in_a_clone_does_not_affect_other_stacks(
    clones: dict[str, Path], running: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{VALUE}\n".encode())))
    capsys.readouterr()
    store(open_project(clones["fix-1"], cwd=Path.cwd()), SECRET, "")
    assert (asked(running, "set"), capsys.readouterr().err) == (["app-fix-1"], "")


def test_a_removed_secret_is_removed_from_the_clones_that_have_it(
    clones: dict[str, Path], running: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    has = Held(name="a", hosts=("a.test",))
    held = {root: (has,) if name == "fix-1" else () for name, root in clones.items()}
    monkeypatch.setattr("agent_sandbox.features.secrets.commands.remove.secrets_of", lambda own: held[own.root])
    running.says("secret remove")
    capsys.readouterr()
    assert exit_code(lambda: remove("a")) == 0
    assert capsys.readouterr().err.splitlines()[:2] == [
        "a is removed: the proxy no longer injects it",
        "a is removed from its clones, too: fix-1, fix-2",
    ]
    assert asked(running, "remove") == ["app", "app-fix-1"]


def test_warns_about_a_clone_in_which_the_change_fails(
    project: Path, clones: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(own: Project) -> None:
        if own.root == clones["fix-1"]:
            raise UserError([Problem(where="a", what="no")])

    capsys.readouterr()
    in_clones(open_project(None, cwd=project), fail, done="done")
    assert capsys.readouterr().err == "warning: fix-1: a: no\ndone: fix-2\n"


@pytest.mark.usefixtures("clones")
def test_running_clones_load_the_policy_while_the_projects_own_stack_is_down(
    project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_running(docker, "app-fix-1-")
    capsys.readouterr()
    monkeypatch.setattr(
        reload_policy, "reload_stack", lambda _: {"clones": [{"name": "fix-1", "ok": True, "digest": "1"}]}
    )
    reload_policy.take_effect(open_project(None, cwd=project), "a", None, is_stored=True)
    said = "a is stored, and agent-sandbox up loads the policy\nfix-1: policy loaded, digest 1\n"
    assert capsys.readouterr().err == said
