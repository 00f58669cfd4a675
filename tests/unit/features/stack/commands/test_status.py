import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.proxy.decisions import local_time
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.features.stack.commands.status import clock_off, status
from agent_sandbox.features.stack.refusals import NOT_COUNTED
from agent_sandbox.features.watch.webhook_outcome import Failure, save_failure
from agent_sandbox.policyfile import load_policy
from agent_sandbox.project.clone_record import Clone
from agent_sandbox.stack.recorded import Facts
from clone_worlds import with_clones
from fake_docker import FakeDocker
from fake_refusals import refusals_said
from fake_stack import inspected, trust, with_containers, with_inspected

NOW = datetime(2026, 3, 1, 7, tzinfo=UTC)


@pytest.fixture
def up(project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    """Fake a running stack with the policy on disk, and one denial."""
    monkeypatch.setattr(f"{status.__module__}._telemetry", lambda _policy: lambda _host: False)  # compiles services
    digest = load_policy(project / ".devcontainer" / "policy.yaml").digest
    denial = {
        "time": "x",
        "decision": "deny",
        "method": "GET",
        "host": "a.test",
        "port": 443,
        "path": "/",
        "reason": "no",
    }
    answer = {"policy": {"digest": digest}, "requests": {"allowed": 1, "denied": 2, "starts": 3}}
    docker.says("agent_sandbox.proxy status --denials 200", out=json.dumps({**answer, "denials": [denial]}))
    return with_containers(docker, proxy="healthy", agent="healthy")


def test_prints_containers_policy_and_denials(
    up: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up.rules
    digest = load_policy(project / ".devcontainer" / "policy.yaml").digest[:12]
    assert exit_code(status) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("app-1  ")
    assert lines[1:] == [
        "  proxy     healthy  agent-sandbox/x:1",
        "  agent     healthy  agent-sandbox/x:1",
        f"policy  .devcontainer/policy.yaml {digest} loaded",
        "limits  memory 8g, cpus 4, pids 4096",
        "requests  1 allowed, 2 denied since the proxy started; and 3 checks by the sandbox itself",
        "last denials",
        "  x  deny   GET https://a.test/  no",
    ]


@pytest.fixture
def clones(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make two clones of the project."""
    with_clones(project, tmp_path_factory.mktemp("clones"), monkeypatch, "fix-1", "fix-2")


@pytest.mark.usefixtures("clones", "up")
def test_lists_running_clones_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(status) == 0
    assert "clones  running: fix-1, fix-2" in capsys.readouterr().out.splitlines()
    assert exit_code(lambda: status(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["clones"] == ["fix-1", "fix-2"]


def test_reports_a_failed_webhook_in_one_line(
    up: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up.rules
    time = "2026-01-02T10:00:00Z"
    save_failure(project, Failure(why="https://hooks.test: it answers 500", time=time), os.environ)
    assert exit_code(status) == 0
    assert f"webhook  https://hooks.test: it answers 500 ({local_time(time)})" in capsys.readouterr().out.splitlines()
    assert exit_code(lambda: status(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["webhook"] == {"why": "https://hooks.test: it answers 500", "time": time}


def test_shows_services_beside_the_sandbox_and_only_firewalls_that_are_not_ready(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    states = {"db": "healthy", "firewall.db": "healthy", "web-server": "exited", "firewall.web-server": "unhealthy"}
    with_containers(docker, agent="healthy", **states, queue="unhealthy", later="created")
    assert exit_code(status) == 0
    assert capsys.readouterr().out.splitlines()[1:10] == [
        "  agent               healthy             agent-sandbox/x:1",
        "  db                  healthy             agent-sandbox/x:1",
        "  firewall.web-server unhealthy           agent-sandbox/x:1",
        "  later               created             agent-sandbox/x:1",
        "  queue               unhealthy           agent-sandbox/x:1",
        "  web-server          exited with code 1  agent-sandbox/x:1",
        "closed  later: not running: agent-sandbox up",
        "beside  queue unhealthy: agent-sandbox logs queue; then agent-sandbox up",
        "beside  web-server exited with code 1: agent-sandbox logs web-server; then agent-sandbox up",
    ]


def test_reports_a_service_that_lost_its_network(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, **{"db": "healthy", "firewall.db": "exited"})
    assert exit_code(status) == 0
    assert capsys.readouterr().out.splitlines()[3:5] == [
        "closed  firewall.db: not running: agent-sandbox up",
        "closed  db: lost its network because its firewall restarted: agent-sandbox up",
    ]


def test_shows_refusals_of_the_firewall_last(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    places = [(["tcp", "192.0.2.1", port], 86_000 + port, 2) for port in range(1, 8)]
    docker.says("firewall0000 /usr/local/lib/agent-sandbox/refusals", out=refusals_said(places=places))
    with_containers(docker, firewall="healthy", agent="healthy")
    assert exit_code(status) == 0
    lines = capsys.readouterr().out.splitlines()[-6:]
    assert lines[0] == "refused  14 by the firewall in the last day: agent-sandbox logs --firewall"
    assert [line.split("  ")[2:] for line in lines[1:]] == [
        [f"tcp 192.0.2.1:{port}", "2 times"] for port in range(3, 8)
    ]
    assert exit_code(lambda: status(json=True)) == 0
    found = json.loads(capsys.readouterr().out)["refusals"]
    assert (found["counted"], found["total"], [one["port"] for one in found["last"]]) == (True, 14, [3, 4, 5, 6, 7])


def test_reports_a_firewall_that_cannot_count(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, firewall="healthy", agent="healthy")
    assert exit_code(status) == 0
    expected = f"refused  {NOT_COUNTED}"
    assert capsys.readouterr().out.splitlines()[-1] == expected
    assert exit_code(lambda: status(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["refusals"] == {"counted": False, "total": 0, "last": []}


def test_shows_hints_and_omits_own_checks_if_there_were_none(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    hinted = {"time": "x", "decision": "allow", "host": "a.test", "port": 443, "method": "PUT", "path": "/"}
    hints = {"count": 7, "last": [hinted | {"reason": "by x", "hint": "upload: sent 9 MiB at once"}]}
    counted = {"requests": {"allowed": 1, "denied": 2, "starts": 0}, "hints": hints}
    docker.says("agent_sandbox.proxy status", out=json.dumps(counted))
    with_containers(docker, proxy="healthy")
    assert project.exists()
    assert exit_code(status) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "requests  1 allowed, 2 denied since the proxy started",
        "hints (not decisions) about 7 requests since the proxy started; the last:",
        "  x  allow  PUT https://a.test/  by x; hint: upload: sent 9 MiB at once",
    ]


def test_counts_failed_requests_apart_and_shows_why_the_last_ones_failed(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = {"time": "x", "decision": "allow", "host": "a.test", "port": 443, "method": "GET", "path": "/"}
    failures = {"count": 6, "last": [failed | {"reason": "the server's certificate is self-signed"}]}
    counted = {"requests": {"allowed": 6, "denied": 0, "starts": 0}, "failed": failures}
    docker.says("agent_sandbox.proxy status", out=json.dumps(counted))
    with_containers(docker, proxy="healthy")
    assert project.exists()
    assert exit_code(status) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "requests  6 allowed (6 failed), 0 denied since the proxy started",
        "allowed but failed: 6 requests since the proxy started; the last:",
        "  x  allow  GET https://a.test/  the server's certificate is self-signed",
    ]
    assert exit_code(lambda: status(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["failed"] == failures


def test_shows_limits_that_change_at_the_next_up(
    up: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up.rules
    file = project / ".devcontainer" / "docker-compose.yml"
    said = "agent: {mem_limit: 4g, pids_limit: 4096, "
    file.write_text(file.read_text().replace("agent: {image", f"{said}image"))
    trust(project)
    assert exit_code(status) == 0
    limits = "limits  memory 8g (4g after agent-sandbox up), cpus 4, pids 4096"
    assert limits in capsys.readouterr().out.splitlines()
    assert exit_code(lambda: status(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["limits_after_up"] == {"memory": "4g"}


def test_reports_a_policy_without_the_service_of_the_agent(
    up: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up.rules
    (project / ".devcontainer" / "policy.yaml").write_text("domains: [a.test]\n")
    assert exit_code(status) == 0
    told = next(line for line in capsys.readouterr().out.splitlines() if "no policy names" in line)
    assert exit_code(lambda: status(json=True)) == 0
    assert [told.strip()] == json.loads(capsys.readouterr().out)["policy"]["lacking"]


def test_names_files_that_are_not_trusted(up: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert up.rules
    file = project / ".devcontainer" / "docker-compose.yml"
    file.write_text(f"{file.read_text()}# mine\n")
    assert exit_code(status) == 0
    expected = "trust   .devcontainer/docker-compose.yml is not trusted: agent-sandbox trust"
    assert capsys.readouterr().out.splitlines()[1] == expected
    assert exit_code(lambda: status(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["unseen"] == [".devcontainer/docker-compose.yml"]


def test_reports_lost_mounts_and_unprotected_files(
    up: FakeDocker, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    up.says("exec agent0000000", out=".git/config\n", code=1)
    for name in (".envrc", ".mcp.json", ".nvimrc", ".exrc", "mise.toml", "lefthook.yml"):
        (project / name).write_text("")
    assert exit_code(status) == 0
    assert capsys.readouterr().out.splitlines()[5:7] == [
        "open    .git/config: replaced on the host machine, so the agent can write it now: agent-sandbox up",
        "open    .envrc, .exrc, .mcp.json, .nvimrc, lefthook.yml and 1 more: not protected: agent-sandbox doctor",
    ]
    assert exit_code(lambda: status(json=True)) == 0
    workspace = json.loads(capsys.readouterr().out)["workspace"]
    assert (workspace["lost"], len(workspace["unprotected"])) == ([".git/config"], 6)
    monkeypatch.setattr(f"{status.__module__}.path_option", lambda *_, **__: " --path fix-1")
    assert exit_code(status) == 0
    replaced, unprotected = capsys.readouterr().out.splitlines()[5:7]
    assert replaced.endswith(": agent-sandbox up --path fix-1")
    assert unprotected.endswith(": agent-sandbox doctor --path fix-1")


def test_reports_directories_that_were_not_searched_for_repositories(
    up: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert up.rules
    monkeypatch.setattr("agent_sandbox.host.git.repositories.MAX_FOLDERS", 1)
    (project / "docs").mkdir()
    assert exit_code(status) == 0
    expected = "open    .devcontainer, docs: not searched for repositories: agent-sandbox doctor"
    assert expected in capsys.readouterr().out.splitlines()
    assert exit_code(lambda: status(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["workspace"]["unsearched"] == [".devcontainer", "docs"]


def test_reports_an_agent_without_network_and_the_fix(up: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up.says("exec agent0000000", out="the agent has no network\n", code=2)
    assert exit_code(status) == 0
    assert capsys.readouterr().out.splitlines()[5] == "closed  the agent has no network: agent-sandbox up"
    assert exit_code(lambda: status(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["cut_off"] == "the agent has no network"


def test_reports_another_network_of_the_agent(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, network="mine", firewall="healthy")
    assert exit_code(status) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "open    the agent is connected to another network; only the firewall's rules block it:"
        " docker network disconnect mine firewall0000"
    )


def test_reports_another_container_in_the_agents_network(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("network inspect app-1_sandbox", out='{"9": {"Name": "db"}}')
    with_containers(docker, firewall="healthy")
    assert exit_code(status) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "open    another container is in the agent's network; only the firewall's rules keep them apart:"
        " docker network disconnect app-1_sandbox db"
    )
    assert exit_code(lambda: status(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["strangers"] == ["docker network disconnect app-1_sandbox db"]


def test_names_the_project_of_a_clone_and_adds_its_path_to_commands(
    up: FakeDocker, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up.rules
    clone = Clone(project=Path("/home/me/app"), name="fix-1", root=project, title="app-fix-1")
    monkeypatch.setattr(
        f"{status.__module__}.clone_at",
        lambda root, _environ: clone if root == project else None,
    )
    monkeypatch.setattr(f"{status.__module__}.path_option", lambda *_, **__: " --path fix-1")
    policy = project / ".devcontainer" / "policy.yaml"
    policy.write_text("version: 1\ndomains: [example.com]\n")
    digest = load_policy(policy).digest[:12]
    assert exit_code(status) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("  fix-1, a clone of /home/me/app")
    reload = "agent-sandbox proxy reload --path fix-1"
    assert f"policy  .devcontainer/policy.yaml {digest} edited since the proxy loaded it: {reload}" in lines
    policy.write_text("domainz: []\n")
    assert exit_code(status) == 0
    assert "invalid: agent-sandbox policy check --path fix-1; " in capsys.readouterr().out
    file = project / ".devcontainer" / "docker-compose.yml"
    file.write_text(f"{file.read_text()}# mine\n")
    assert exit_code(status) == 0
    untrusted = ".devcontainer/docker-compose.yml, .devcontainer/policy.yaml are not trusted"
    assert capsys.readouterr().out.splitlines()[1] == f"trust   {untrusted}: agent-sandbox trust --path fix-1"


def test_reports_an_invalid_policy_and_what_the_proxy_does(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".devcontainer" / "policy.yaml").write_text("domainz: []\n")
    docker.says("agent_sandbox.proxy status", out=json.dumps({"policy": {"digest": "0", "valid": False}}))
    with_containers(docker, proxy="unhealthy")
    assert exit_code(status) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "policy  .devcontainer/policy.yaml invalid: agent-sandbox policy check; the proxy denies everything",
        f"  {project}/.devcontainer/policy.yaml:1:1: unknown key 'domainz'; did you mean `domains`?",
    ]


def test_counts_denials_of_telemetry_apart(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    hosts = ("telemetry.individual.githubcopilot.com", "telemetry.go.dev", "huggingface.co", "a.test")
    denials = [{"decision": "deny", "method": "POST", "host": host, "port": 443, "path": "/x"} for host in hosts]
    answer = {"policy": {"digest": "x"}, "denials": denials}
    docker.says("agent_sandbox.proxy status --denials 200", out=json.dumps(answer))
    with_containers(docker, proxy="healthy", agent="healthy")
    assert exit_code(status) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [host for host in hosts if any(host in line for line in shown)] == ["huggingface.co", "a.test"]
    assert "  and 2 of telemetry, without which agents work: agent-sandbox proxy logs --denied" in shown
    assert exit_code(lambda: status(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["telemetry_denials"] == 2


def test_names_the_file_of_an_invalid_layer(
    up: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str], fenced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (up.rules != [], project.exists()) == (True, True)
    layer = fenced / "etc" / "policy.yaml"
    layer.parent.mkdir()
    layer.write_text("domainz: []\nservicez: []\n")
    seen = Facts(layers=frozenset({str(layer.parent.resolve())}))
    monkeypatch.setattr("agent_sandbox.features.stack.commands.status.read_facts", lambda _: seen)
    assert exit_code(status) == 0
    lines = capsys.readouterr().out.splitlines()
    kept = "invalid: agent-sandbox policy check; the proxy uses the last valid one until you restart it"
    assert lines[3] == f"policy  {layer} {kept}"
    assert lines[5] == f"  {layer}:1:1: unknown key 'domainz'; did you mean `domains`?"


def test_reports_since_when_the_policy_is_invalid_and_which_is_in_force(
    up: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    kept = {
        "digest": "0",
        "valid": True,
        "loaded": "2026-01-02T10:00:00Z",
        "problems_since": "2026-01-02T10:05:00Z",
        "problems": [f".devcontainer/policy.yaml:{line}:1: no" for line in range(1, 9)],
    }
    up.rules.clear()
    up.says("agent_sandbox.proxy status", out=json.dumps({"policy": kept}))
    with_containers(up, proxy="healthy")
    assert exit_code(status) == 0
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "  invalid since 2026-01-02 10:05:00; the policy from 2026-01-02 10:00:00 is in force",
        "  .devcontainer/policy.yaml:1:1: no",
        "  .devcontainer/policy.yaml:2:1: no",
        "  .devcontainer/policy.yaml:3:1: no",
    ]


def test_shows_the_upstream_proxy(up: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    through = "all allowed requests go through http://proxy.corp.example:3128"
    up.rules.clear()
    up.says("agent_sandbox.proxy status", out=json.dumps({"policy": {"digest": "0", "upstream": [through]}}))
    with_containers(up, proxy="healthy")
    assert exit_code(status) == 0
    assert f"  {through}" in capsys.readouterr().out.splitlines()


def test_json_output_has_policy_containers_and_requests(
    up: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up.rules
    assert exit_code(lambda: status(json=True)) == 0
    got = json.loads(capsys.readouterr().out)
    digest = load_policy(project / ".devcontainer" / "policy.yaml").digest
    assert got["policy"] == {
        "file": f"{project}/.devcontainer/policy.yaml",
        "state": "current",
        "host_digest": digest,
        "loaded_digest": digest,
        "problems": [],
        "lacking": [],
        "left_out": [],
        "stale": [],
        "in_proxy": {"digest": digest},
    }
    assert [(service["service"], service["ready"]) for service in got["services"]] == [("proxy", True), ("agent", True)]
    assert (got["project"], got["root"], got["requests"]) == (
        "app-1",
        str(project),
        {"allowed": 1, "denied": 2, "starts": 3},
    )


@pytest.mark.usefixtures("project")
def test_reports_a_stack_that_is_not_running(
    docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    docker.says("ps --all")
    assert exit_code(status) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  not running: agent-sandbox up"
    assert lines[2].endswith(" not loaded: the proxy is down")
    monkeypatch.setattr(f"{status.__module__}.path_option", lambda *_, **__: " --path fix-1")
    assert exit_code(status) == 0
    assert capsys.readouterr().out.splitlines()[1] == "  not running: agent-sandbox up --path fix-1"


def test_names_containers_that_do_not_run_and_the_command_that_starts_them(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, proxy="starting", firewall="exited", agent="created")
    assert exit_code(status) == 0
    assert capsys.readouterr().out.splitlines()[1:5] == [
        "  proxy     starting            agent-sandbox/x:1",
        "  firewall  exited with code 1  agent-sandbox/x:1",
        "  agent     created             agent-sandbox/x:1",
        "closed  firewall, agent: not running: agent-sandbox up",
    ]


def test_reports_a_wrong_clock_of_the_proxy(up: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    up.rules.clear()
    up.says("agent_sandbox.proxy status", out=json.dumps({"clock": "1970-01-01T00:00:00+00:00"}))
    with_containers(up, proxy="healthy")
    assert exit_code(lambda: status(json=True)) == 0
    off = json.loads(capsys.readouterr().out)["clock"]
    assert off.endswith(" days behind")
    assert exit_code(status) == 0
    told = f"closed  the proxy's clock is {off}, so certificates fail: set the clock of the Docker host"
    assert told in capsys.readouterr().out.splitlines()


def test_reports_a_layer_that_the_stack_was_made_without(
    up: FakeDocker, fenced: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up.rules
    (fenced / "etc").mkdir()
    (fenced / "etc" / "policy.yaml").write_text("deny: [a.test]")
    assert exit_code(status) == 0
    told = f"  {fenced}/etc/policy.yaml exists, but the stack was made without it: agent-sandbox up"
    shown = capsys.readouterr().out.splitlines()
    assert (told in shown, [line for line in shown if " edited since " in line]) == (True, [])
    assert exit_code(lambda: status(json=True)) == 0
    assert len(json.loads(capsys.readouterr().out)["policy"]["left_out"]) == 1


def test_a_service_whose_registry_has_changed_is_reported(
    up: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up.rules
    monkeypatch.setattr("agent_sandbox.features.policy.stale_services.stale_services", lambda *_: ("it changed",))
    assert exit_code(status) == 0
    assert "  it changed" in capsys.readouterr().out.splitlines()
    assert exit_code(lambda: status(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["policy"]["stale"] == ["it changed"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            "[Errno 28] No room",
            "log     7 records lost, and it still cannot be written: [Errno 28] No room",
        ),
        ("", "log     7 records lost; it is written again"),
    ],
)
def test_status_reports_dropped_audit_records(
    error: str, told: str, project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("agent_sandbox.proxy status", out=json.dumps({"log": {"dropped": 7, "error": error}}))
    with_containers(docker, proxy="healthy")
    assert exit_code(status) == 0
    assert told in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("seconds", "left"), [(60, "1 minute"), (61, "2 minutes")])
def test_status_reports_that_unlisted_requests_are_allowed_while_learning(
    seconds: int, left: str, project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("agent_sandbox.proxy status", out=json.dumps({"learning_seconds": seconds}))
    with_containers(docker, proxy="healthy")
    assert exit_code(status) == 0
    told = f"open    policy learn allows what no rule denies for {left} more: agent-sandbox policy learn stop"
    assert told in capsys.readouterr().out.splitlines()
    assert exit_code(lambda: status(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["learning_seconds"] == seconds


@pytest.mark.parametrize(
    ("restarts", "told"), [(1, "restarted once, out of memory"), (3, "restarted 3 times, once out of memory")]
)
def test_status_reports_how_often_a_service_was_restarted_and_why(
    restarts: int, told: str, project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_inspected(docker, inspected("proxy", "healthy", restarts=restarts))
    assert exit_code(status) == 0
    assert f"  proxy     healthy  agent-sandbox/x:1  {told}" in capsys.readouterr().out.splitlines()
    assert exit_code(lambda: status(json=True)) == 0
    (service,) = json.loads(capsys.readouterr().out)["services"]
    assert (service["restarts"], service["out_of_memory"]) == (restarts, True)


def test_reports_secrets_without_a_value_expiring_secrets_and_refused_secrets(
    project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipes_of(project, os.environ).add(Recipe(name="the.key", hosts=("a.test",), source="pass t"))
    failed = {"name": "the.key", "hosts": ["a.test"], "problem": "its source failed", "expires": None}
    expiring = {"name": "other", "hosts": ["a.test"], "problem": "", "expires": 1_700_000_000.5}
    refused = {**expiring, "refused_by": "a.test", "refused": 1_700_000_000.5}
    both = [refused, {**refused, "name": "the.key"}]
    docker.says("agent_sandbox.proxy status", out=json.dumps({"secrets": [failed, expiring, *both]}))
    with_containers(docker, proxy="healthy")
    assert exit_code(status) == 0
    at = local_time("2023-11-14T22:13:20")
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("secret")] == [
        "secret  the.key has no value now: its source failed (pass t): agent-sandbox secret sync",
        f"secret  other expires soon at {at}: agent-sandbox secret sync",
        f"secret  other was refused by a.test at {at}: agent-sandbox secret set replaces it",
        f"secret  the.key was refused by a.test at {at} (pass t): renew it there, then agent-sandbox secret sync",
    ]
    assert exit_code(lambda: status(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["secrets"] == [failed, expiring, *both]
    monkeypatch.setattr(f"{status.__module__}.path_option", lambda *_, **__: " --path fix-1")
    assert exit_code(status) == 0
    assert f"{at}: agent-sandbox secret set --path fix-1 replaces it\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("off", "told"),
    [
        (timedelta(), ""),
        (timedelta(minutes=4), ""),
        (timedelta(minutes=-4), ""),
        (timedelta(minutes=5), "5 minutes ahead"),
        (timedelta(minutes=-90), "90 minutes behind"),
        (timedelta(hours=47), "47 hours ahead"),
        (timedelta(days=365), "365 days ahead"),
        (timedelta(days=-365), "365 days behind"),
        (timedelta(days=365, seconds=-3), "365 days ahead"),  # the answer took a while
    ],
)
def test_reports_a_clock_that_is_off_by_five_minutes_or_more(off: timedelta, told: str) -> None:
    assert clock_off((NOW + off).isoformat(), now=NOW) == told
