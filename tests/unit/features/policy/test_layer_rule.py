import json
from pathlib import Path

import pytest

from agent_sandbox.features.policy import layer_rule as subject
from agent_sandbox.features.policy import unmounted_layers
from agent_sandbox.features.policy.layer_rule import ELSEWHERE, RuleLayer, layer_policy, write_layer_rule
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import open_project
from agent_sandbox.stack.recorded import Facts
from fake_docker import FakeDocker
from fake_stack import with_containers

RULE = "GET https://new.test/**"
MINE = "# mine\nversion: 1\ndomains: [a.test]  # stays\n"
AFTER = "# mine\nversion: 1\ndomains: [a.test]  # stays\nallow:\n  - GET https://new.test/**\n"


@pytest.fixture
def file(
    project: Path,
    docker: FakeDocker,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Return the user's policy, which the proxy of a running stack sees, and which does not exist yet."""
    assert project.exists()
    with_containers(docker, proxy="healthy")
    docker.says("reload", out=json.dumps({"ok": True, "digest": "0123456789ab", "change": {}}))
    folder = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    (folder / "agent-sandbox").mkdir()
    for module in (subject, unmounted_layers):
        monkeypatch.setattr(module, "read_facts", lambda _: Facts(layers=frozenset({str(folder / "agent-sandbox")})))
    return folder / "agent-sandbox" / "policy.yaml"


def write(layer: RuleLayer = RuleLayer.USER) -> None:
    write_layer_rule(open_project(None, cwd=Path.cwd()), RULE, layer)


def test_adding_a_user_rule_keeps_the_text_of_the_users_policy(
    file: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(MINE)
    write()
    assert file.read_text() == AFTER
    assert any("reload" in call for call in docker.calls)
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{file}:5: added `- {RULE}` under `allow`\n")
    assert ELSEWHERE in printed.err.replace("\n", " ")
    write()
    assert file.read_text() == AFTER


def test_creates_the_users_policy_readable_for_the_proxy(file: Path) -> None:
    write()
    assert file.read_text().endswith(f"\nversion: 1\nallow:\n  - {RULE}\n")
    assert file.stat().st_mode & 0o777 == 0o644


def test_a_project_rule_does_not_create_the_users_policy(file: Path, project: Path) -> None:
    policy = project / ".devcontainer" / "policy.yaml"
    assert layer_policy(project, RuleLayer.PROJECT) == policy
    write(RuleLayer.PROJECT)
    assert policy.read_text().endswith(f"allow:\n  - {RULE}\n")
    assert not file.exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("deny: [new.test]\n", "is denied by policy.yaml:1 (any method new.test), and a deny always wins"),
        ("tighten: true\ndomains: [a.test]\n", "would still"),
        ("domains: [\n", "policy.yaml:"),
    ],
)
def test_does_not_write_a_rule_that_cannot_take_effect(file: Path, text: str, why: str) -> None:
    file.write_text(text)
    with pytest.raises(UserError) as raised:
        write()
    assert why in str(raised.value.problems[0])
    assert file.read_text() == text


def test_does_not_write_a_rule_that_the_organisation_does_not_allow(
    file: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("etc")
    (folder / "policy.yaml").write_text("version: 1\ndomains: [a.test]\n")
    monkeypatch.setattr("agent_sandbox.host.user_dirs.ORGANISATION", folder)
    with pytest.raises(UserError, match="organisation"):
        write()
    assert not file.exists()


def test_fails_with_a_hint_if_the_sandbox_does_not_mount_the_users_policy(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "read_facts", lambda _: Facts())
    with pytest.raises(UserError) as raised:
        write()
    (problem,) = raised.value.problems
    assert (problem.where, problem.what) == (str(file.parent), "the sandbox of this project was made without it")
    assert problem.hint.endswith(", then agent-sandbox up; or allow it for the project")
    file.parent.rmdir()
    with pytest.raises(UserError, match=f"mkdir -p {file.parent}, then agent-sandbox init"):
        write()
    assert not file.exists()
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "")
    with pytest.raises(UserError, match="HOME: not an absolute path; set it to your home directory"):
        write()
