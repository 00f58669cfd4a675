import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.clones.fetch import one_at_a_time
from agent_sandbox.features.proxy import reload_policy
from agent_sandbox.features.proxy.commands.reload import reload
from agent_sandbox.features.proxy.reload_policy import reload_stack, require_loaded, take_effect
from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import clones_of
from agent_sandbox.project.installed import read_project
from agent_sandbox.project.trust_store import open_store
from clone_worlds import with_clones
from fake_docker import FakeDocker
from fake_stack import trust, with_containers, with_running


def test_the_error_of_a_failed_reload_states_which_policy_is_in_force() -> None:
    with pytest.raises(UserError) as raised:
        require_loaded({"ok": False, "problems": ["policy.yaml:1:1: unknown key"]})
    kept = "nothing was changed: the previous policy stays in force until the proxy restarts"
    assert str(raised.value) == f"policy.yaml:1:1: unknown key\n{kept}"


def test_refuses_to_reload_a_stopped_stack(project: Path, docker: FakeDocker) -> None:
    with_containers(docker)
    with pytest.raises(UserError, match="the stack is not running; agent-sandbox up"):
        reload_stack(project)


type PolicyOf = Callable[[str], Path]


@pytest.fixture
def policy_of(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> PolicyOf:
    """Make the clones fix-1 and fix-2 of a project, whose policy then changes and is trusted; return their policies."""
    roots = with_clones(project, tmp_path_factory.mktemp("clones"), monkeypatch, "fix-1", "fix-2")
    edit(project / ".devcontainer" / "policy.yaml", "example.com")
    trust(project)
    return lambda name: roots[name] / ".devcontainer" / "policy.yaml"


def edit(policy: Path, host: str) -> None:
    policy.write_text(policy.read_text().replace("example.org", host))


def proxies(docker: FakeDocker, *running: str) -> FakeDocker:
    """Have the proxies of the stacks whose names start so, and let all of them load their policy."""
    docker.says("agent_sandbox.proxy reload", out=json.dumps({"ok": True, "digest": "0123456789abcdef"}))
    return with_running(docker, *running)


LOADED = "policy loaded, digest 0123456789ab\n"
KEPT = (
    "note: fix-2 keeps its own policy, because it was edited there; "
    "agent-sandbox policy allow --path fix-2 adds to it\n"
)


def test_reloads_the_trusted_policy_in_running_clones_but_keeps_edited_policies(
    project: Path, policy_of: PolicyOf, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(policy_of("fix-2"), "example.net")
    trust(policy_of("fix-2").parent.parent)
    proxies(docker, "app-")
    assert exit_code(lambda: reload(path=project)) == 0
    assert "example.com" in policy_of("fix-1").read_text()
    assert "example.net" in policy_of("fix-2").read_text()
    assert capsys.readouterr().err == f"{KEPT}{LOADED}fix-1: {LOADED}fix-2: {LOADED}"


def test_clones_reload_while_the_projects_own_stack_is_down(
    project: Path, policy_of: PolicyOf, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    proxies(docker, "app-fix-1-")
    assert exit_code(lambda: reload(path=project)) == 0
    assert capsys.readouterr().err == f"fix-1: {LOADED}"
    assert "example.org" in policy_of("fix-2").read_text()  # it gets the policy when it starts


def test_reloads_a_single_clone_by_name(
    project: Path, policy_of: PolicyOf, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    proxies(docker, "app-")
    assert exit_code(lambda: reload(path=Path("fix-1"))) == 0
    assert "example.com" in policy_of("fix-1").read_text()
    assert "example.org" in policy_of("fix-2").read_text()
    assert capsys.readouterr().err == LOADED
    assert project.exists()


@pytest.mark.parametrize("path", [None, "fix-1"])
def test_does_not_copy_an_untrusted_policy_to_a_clone(
    project: Path, policy_of: PolicyOf, docker: FakeDocker, path: str | None
) -> None:
    policy, before = project / ".devcontainer" / "policy.yaml", policy_of("fix-1").read_text()
    policy.write_text(policy.read_text().replace("example.com", "evil.test"))
    proxies(docker, "app-")
    with pytest.raises(UserError, match=r"not trusted yet: \.devcontainer/policy\.yaml"):
        reload_stack(Path(path) if path else None)
    assert policy_of("fix-1").read_text() == before
    assert not any("proxy reload" in call for call in docker.calls)


def test_reports_a_clone_that_cannot_reload_and_reloads_the_others(
    project: Path, policy_of: PolicyOf, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    (clone,) = (one for one in clones_of(project, os.environ) if one.name == "fix-1")
    proxies(docker, "app-")
    with one_at_a_time(clone):
        assert exit_code(lambda: reload(path=project)) == 1
    what = "fix-1: another command is using this clone; wait until that command ends, then run this one again"
    assert capsys.readouterr().err == f"{LOADED}fix-1 did not load it: {what}\nfix-2: {LOADED}"
    assert "example.org" in policy_of("fix-1").read_text()


def test_a_clone_of_an_untrusted_project_reloads_its_own_policy(
    project: Path, policy_of: PolicyOf, docker: FakeDocker
) -> None:
    open_store(os.environ).forget(project)
    proxies(docker, "app-")
    assert reload_stack(policy_of("fix-1").parent.parent)["ok"]
    assert "example.org" in policy_of("fix-1").read_text()


@pytest.mark.parametrize(
    ("runs", "is_stored", "how", "said"),
    [
        (True, True, "", "policy loaded, digest 111111111111\n"),
        (True, True, "names it", "a was replaced; the policy names it already\npolicy loaded, digest 111111111111\n"),
        (False, True, "", "a is stored, and agent-sandbox up loads the policy\n"),
        (False, False, "", "a will be fetched from its source by agent-sandbox up\n"),
    ],
)
def test_a_secret_takes_effect_now_or_with_the_first_up(
    project: Path,
    docker: FakeDocker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    runs: bool,
    is_stored: bool,
    how: str,
    said: str,
) -> None:
    with_containers(docker, **({"proxy": "healthy"} if runs else {}))
    monkeypatch.setattr(
        reload_policy, "reload_stack", lambda _: {"digest": "1" * 64, "change": {"counts": {"added": 0}}}
    )
    take_effect(read_project(project), "a", None, is_stored=is_stored, how=how)
    out, err = capsys.readouterr()
    assert out + err == said
