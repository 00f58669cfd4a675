import json
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.proxy.commands import reload as module
from agent_sandbox.features.proxy.commands.reload import reload
from fake_docker import FakeDocker
from fake_stack import with_containers

KEPT = "nothing was changed: the previous policy stays in force until the proxy restarts"


def test_loads_a_valid_policy(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    docker.says("agent_sandbox.proxy reload", out='{"ok": true, "digest": "0123456789abcdef", "problems": []}')
    with_containers(docker, proxy="unhealthy")
    assert exit_code(reload) == 0
    assert capsys.readouterr() == ("", "policy loaded, digest 0123456789ab\n")


ANSWER = {
    "ok": True,
    "digest": "0123456789abcdef",
    "problems": [],
    "closed": 1,
    "change": {
        "added": [{"effect": "allow", "rule": "GET a.test/x", "origin": "policy.yaml:2"}],
        "removed": [{"effect": "deny", "rule": "any method b.test", "origin": "policy.yaml:4"}],
        "others": ["- block_status: 403", "+ block_status: 418"],
        "unreachable": ["a.test"],
        "counts": {"added": 1, "removed": 7, "others": 3, "unreachable": 2},
    },
}


def test_prints_what_changed(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    docker.says("agent_sandbox.proxy reload", out=json.dumps(ANSWER))
    with_containers(docker, proxy="healthy")
    assert exit_code(reload) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "+ allow GET a.test/x  (policy.yaml:2)",
        "- deny any method b.test  (policy.yaml:4)",
        "- and 6 more rules",
        "- block_status: 403",
        "+ block_status: 418",
        "and 1 more change other than rules",
        "no longer reachable: a.test",
        "no longer reachable: 1 more host",
    ]
    assert err == "policy loaded, digest 0123456789ab, 1 connection closed\n"
    assert exit_code(lambda: reload(json=True)) == 0
    assert json.loads(capsys.readouterr().out) == ANSWER


def test_prints_only_the_first_rules_of_a_service_or_line(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    made = [{"effect": "allow", "rule": f"GET {name}.test", "origin": "policy.yaml:2"} for name in "abcde"]
    made += [{"effect": "allow", "rule": f"GET {n}.test", "origin": f"services/g.yaml:{n}"} for n in range(5)]
    made.append({"effect": "allow", "rule": "GET f.test", "origin": "policy.yaml:3"})
    change = {"added": made, "counts": {"added": 11}}
    docker.says("agent_sandbox.proxy reload", out=json.dumps({**ANSWER, "change": change}))
    with_containers(docker, proxy="healthy")
    assert exit_code(reload) == 0
    assert capsys.readouterr().out.splitlines() == [
        "+ allow GET a.test  (policy.yaml:2)",
        "+ allow GET b.test  (policy.yaml:2)",
        "+ allow GET c.test  (policy.yaml:2)",
        "+ and 2 more rules of policy.yaml:2",
        "+ allow GET 0.test  (services/g.yaml:0)",
        "+ allow GET 1.test  (services/g.yaml:1)",
        "+ allow GET 2.test  (services/g.yaml:2)",
        "+ and 2 more rules of services/g.yaml",
        "+ allow GET f.test  (policy.yaml:3)",
    ]


def test_reports_that_nothing_changed(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    kinds = ("added", "removed", "others", "unreachable")
    change = {**{kind: [] for kind in kinds}, "counts": dict.fromkeys(kinds, 0)}
    docker.says("agent_sandbox.proxy reload", out=json.dumps({**ANSWER, "change": change, "closed": 0}))
    with_containers(docker, proxy="healthy")
    assert exit_code(reload) == 0
    assert capsys.readouterr() == ("nothing changed\n", "policy loaded, digest 0123456789ab\n")


def test_an_invalid_policy_does_not_reach_the_proxy(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".devcontainer" / "policy.yaml").write_text("version: 1\ndomainz: []\n")
    docker.says("agent_sandbox.proxy status", out='{"policy": {"valid": true}}')
    with_containers(docker, proxy="healthy")
    assert exit_code(reload) == 1
    problem = "error: .devcontainer/policy.yaml:2:1: unknown key 'domainz'\n  hint: did you mean `domains`?\n"
    assert capsys.readouterr().err == f"{problem}error: {KEPT}\n"
    assert not any("reload" in call for call in docker.calls)


def test_reports_an_invalid_policy_even_if_the_stack_does_not_run(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".devcontainer" / "policy.yaml").write_text("version: 1\ndomainz: []\n")
    docker.says("ps --all")
    assert exit_code(reload) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert said == [
        "error: .devcontainer/policy.yaml:2:1: unknown key 'domainz'",
        "error: app-1: the stack is not running",
    ]


@pytest.mark.parametrize(
    ("valid", "holds"), [("true", KEPT), ("false", "the proxy denies everything until the policy is fixed")]
)
def test_prints_the_problems_that_the_proxy_reports_and_what_is_in_force(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], valid: str, holds: str
) -> None:
    assert project.exists()
    answer = f'{{"ok": false, "valid": {valid}, "problems": [".devcontainer/policy.yaml:2:1: no"]}}'
    docker.says("agent_sandbox.proxy reload", out=answer, code=1)
    with_containers(docker, proxy="healthy")
    assert exit_code(reload) == 1
    assert capsys.readouterr().err == f"error: .devcontainer/policy.yaml:2:1: no\nerror: {holds}\n"


def test_reloads_a_proxy_by_its_control_socket_without_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[tuple[Path, str]] = []

    def ask(path: Path, verb: str) -> dict[str, object]:
        asked.append((path, verb))
        return {"ok": True, "digest": "1"}

    monkeypatch.setattr(module, "ask_socket", ask)
    assert exit_code(lambda: reload(control=Path("c.sock"))) == 0
    assert asked == [(Path("c.sock"), "reload")]
    assert capsys.readouterr().err == "policy loaded, digest 1\n"


def test_reports_a_proxy_that_does_not_run(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, proxy="exited")
    assert exit_code(reload) == 1
    assert capsys.readouterr().err.startswith("error: app-1: the proxy is exited with code 1\n")
