import json
import os
import shutil
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.protect.snapshot import protected_paths, record, recorded
from agent_sandbox.features.review.changes import load_baseline
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.features.stack.commands.up import up
from agent_sandbox.project import owners
from agent_sandbox.stack.recorded import Owner
from certificates import make_authority
from fake_docker import FakeDocker
from fake_stack import compose_line, with_containers

START = " up --detach --no-build --remove-orphans --wait --wait-timeout 120"


def test_up_starts_the_stack_and_names_the_next_step(
    up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    up_to_date.says("ps --all").says("up --detach", err=" Container app-1-proxy-1  Started\n")
    assert exit_code(up) == 0
    assert up_to_date.calls[-1] == compose_line(Path.cwd()) + START
    assert capsys.readouterr().err.splitlines() == [
        "app-1 is up; start the agent with agent-sandbox run, or a shell with agent-sandbox shell"
    ]
    monkeypatch.setattr("agent_sandbox.cli.terminal.progress.PATIENCE", 0)
    assert exit_code(up) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["starting the stack ...", "  proxy started"]
    monkeypatch.setattr("agent_sandbox.features.stack.commands.up.path_option", lambda *_, **__: " --path fix-1")
    assert exit_code(up) == 0
    said = "start the agent with agent-sandbox run --path fix-1, or a shell with agent-sandbox shell --path fix-1"
    assert capsys.readouterr().err.splitlines()[-1] == f"app-1 is up; {said}"


def test_says_that_requests_do_not_trust_a_ca_that_only_builds_get(
    up_to_date: FakeDocker, fence: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    up_to_date.says("ps --all").says("up --detach")
    ca, folder = make_authority(tmp_path, ["a.test"]), fence / ".config" / "agent-sandbox"
    assert exit_code(lambda: up(extra_ca=ca)) == 0
    assert capsys.readouterr().err.splitlines()[0] == (
        f"note: builds trust {ca}, but requests do not: to trust it in both, copy it to {folder}, and name it in "
        "policy.yaml there: `settings: {upstream: {ca: ca.crt}}`"
    )
    folder.mkdir(parents=True)
    shutil.copy(ca, folder)
    (folder / "policy.yaml").write_text("settings: {upstream: {ca: ca.crt}}\n")
    assert exit_code(lambda: up(extra_ca=ca)) == 0
    assert "requests do not" not in capsys.readouterr().err


def test_an_already_running_stack_still_gets_a_snapshot_and_fetched_secrets(
    up_to_date: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "correct horse")
    recipes_of(project, os.environ).add(Recipe(name="A_KEY", hosts=("x.test",), source="env:A_KEY"))
    up_to_date.says("exec agent0000000").says(" create ").says("secret set")
    with_containers(up_to_date, proxy="healthy", firewall="healthy", agent="healthy")
    assert exit_code(lambda: up(extra_ca=make_authority(project.parent, ["a.test"]))) == 0
    assert [call for call in up_to_date.calls if " create " in call or " up " in call] == [
        f"{compose_line(project)} create --no-build --remove-orphans"
    ]
    said = capsys.readouterr().err
    assert "requests do not" not in said  # nothing was built
    assert said.splitlines()[-1] == (
        "app-1 is already up; start the agent with agent-sandbox run, or a shell with agent-sandbox shell"
    )
    assert " secret set A_KEY " in up_to_date.calls[-1]
    assert load_baseline(project, os.environ) is not None
    assert recorded(project, os.environ).texts


@pytest.mark.parametrize(("mapped", "told"), [("name=seccomp", 2), ("name=rootless", 0)])
def test_warns_if_the_agent_can_only_read_the_files_unless_the_engine_is_rootless(
    up_to_date: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mapped: str, told: int
) -> None:
    monkeypatch.setattr(owners, "belongs_to_root", lambda _root: True)
    monkeypatch.setattr(owners, "owner_of", lambda _root: Owner(uid=1000, gid=1000))
    engine = {"KernelVersion": Path("/proc/sys/kernel/osrelease").read_text().strip(), "SecurityOptions": [mapped]}
    up_to_date.says("ps --all").says("up --detach").says("info --format", out=json.dumps(engine))
    assert exit_code(up) == 0
    lines = capsys.readouterr().err.splitlines()
    end = next(number for number, line in enumerate(lines, start=1) if line.startswith("app-1 is up; "))
    assert (
        lines[end:]
        == [
            "the files belong to root, but dev inside is 1000:1000: the agent can only read them",
            f"  hint: chown -R 1000:1000 {Path.cwd()}, then agent-sandbox trust, which asks about the new owner",
        ][:told]
    )


def test_an_invalid_policy_starts_nothing(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".devcontainer" / "policy.yaml").write_text("version: 1\ndomainz: []\n")
    assert exit_code(up) == 1
    assert capsys.readouterr().err.startswith("error: .devcontainer/policy.yaml:2:1: unknown key 'domainz'")
    assert docker.calls == []


def test_prints_the_output_of_a_container_that_fails(
    up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    up_to_date.says("up --detach", err="dependency failed to start: container app-1-firewall-1 exited (1)\n", code=1)
    with_containers(up_to_date, agent="created", firewall="exited", proxy="healthy")
    up_to_date.says("logs --tail 15 firewall0000", err="the direct way out is open\n")
    assert exit_code(lambda: up(quiet=True)) == 1
    expected = (
        "error: firewall: exited with code 1:\n  the direct way out is open\n"
        "  hint: agent-sandbox logs firewall shows the whole output\n"
    )
    assert capsys.readouterr().err == expected


def test_starts_the_agent_even_if_a_service_beside_the_sandbox_fails(
    project: Path, up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Compose starts nothing after such a failure, so the sandbox may not run yet."""
    failure = "dependency failed to start: container app-1-db-1 exited (1)\n"
    up_to_date.says("--wait-timeout 120 agent").says("up --detach", err=failure, code=1)
    with_containers(up_to_date, agent="created", db="exited", proxy="healthy")
    up_to_date.says("logs --tail 15 db0000", err="no license found\n")
    assert exit_code(lambda: up(quiet=True)) == 1
    expected = (
        "error: db: exited with code 1:\n  no license found\n  hint: agent-sandbox logs db shows the whole output\n"
    )
    assert capsys.readouterr().err == expected
    assert [call.rpartition(" up ")[2] for call in up_to_date.calls if " up --detach" in call] == [
        "--detach --no-build --remove-orphans --wait --wait-timeout 120",
        "--detach --no-build --wait --wait-timeout 120 agent",
    ]
    assert recorded(project, os.environ).paths == protected_paths(project)
    assert load_baseline(project, os.environ) is not None


def test_reports_a_failed_service_even_if_the_agent_does_not_start_either(
    up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    up_to_date.says("up --detach", err="dependency failed to start: container app-1-db-1 exited (1)\n", code=1)
    with_containers(up_to_date, agent="created", db="exited")
    up_to_date.says("logs --tail 15 db0000")
    assert exit_code(lambda: up(quiet=True)) == 1
    assert capsys.readouterr().err.startswith("error: db: exited with code 1:\n  it printed nothing\n")


def test_a_failed_build_starts_nothing_although_a_service_beside_the_sandbox_has_exited(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Starting would use old images: they have the same names."""
    assert project.exists()
    docker.says("image inspect").says("build", err="ERROR: failed to solve\n", code=1)
    with_containers(docker, agent="created", db="exited", proxy="healthy").says("up --detach")
    assert exit_code(lambda: up(quiet=True)) == 1
    assert capsys.readouterr().err.startswith("error: agent-sandbox/")
    assert not [call for call in docker.calls if " up --detach" in call]


def test_a_failed_removal_starts_nothing_although_a_service_beside_the_sandbox_has_exited(
    up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    up_to_date.says("up --detach").says("rm --stop --force", err="removal is already in progress\n", code=1)
    with_containers(up_to_date, agent="created", db="unhealthy", proxy="healthy").says("logs --tail 15 db0000")
    assert exit_code(lambda: up(quiet=True)) == 1
    assert capsys.readouterr().err.startswith("error: ")
    assert not [call for call in up_to_date.calls if " up --detach" in call]


def test_recreates_an_unhealthy_proxy(up_to_date: FakeDocker) -> None:
    with_containers(up_to_date, proxy="unhealthy", firewall="created", agent="created").says("compose")
    assert exit_code(lambda: up(quiet=True)) == 0
    compose = [call.partition("docker-compose.yml ")[2] for call in up_to_date.calls if call.startswith("compose")]
    assert compose == ["rm --stop --force proxy", START.strip()]


def test_recreates_an_unhealthy_firewall_together_with_the_agent(
    up_to_date: FakeDocker,
) -> None:
    up_to_date.says("exec agent0000000").says("stop")
    with_containers(up_to_date, proxy="healthy", firewall="unhealthy", agent="healthy").says("compose")
    assert exit_code(lambda: up(quiet=True)) == 0
    compose = [call.partition("docker-compose.yml ")[2] for call in up_to_date.calls if call.startswith("compose")]
    assert compose == ["rm --stop --force agent", "rm --stop --force firewall", START.strip()]


def test_unpauses_a_paused_container_without_recreating_anything(
    up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    up_to_date.says("exec agent0000000").says("unpause firewall0000")
    with_containers(up_to_date, proxy="healthy", firewall="paused", agent="healthy").says("compose")
    assert exit_code(up) == 0
    changing = [call for call in up_to_date.calls if call.startswith(("unpause", "compose"))]
    assert changing == ["unpause firewall0000", compose_line(Path.cwd()) + START]
    assert capsys.readouterr().err.splitlines()[0] == "unpausing firewall"


def test_recreates_an_agent_with_lost_mounts(up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up_to_date.says("exec agent0000000", out=".env\n.git/config\n", code=1).says("stop")
    with_containers(up_to_date, proxy="healthy", firewall="healthy", agent="unhealthy").says("compose")
    record(Path.cwd(), os.environ)
    assert exit_code(lambda: up(quiet=True)) == 0
    compose = [call.partition("docker-compose.yml ")[2] for call in up_to_date.calls if call.startswith("compose")]
    assert compose == ["rm --stop --force agent", START.strip()]
    assert capsys.readouterr().err == (
        ".env: replaced on the host machine, so the agent can write it now; its content is the same as before\n"
        ".git/config: replaced on the host machine, so the agent can write it now; its content is the same as before\n"
    )


def test_recreates_the_proxy_too_if_the_devcontainer_directory_was_replaced(up_to_date: FakeDocker) -> None:
    up_to_date.says("exec agent0000000", out=".devcontainer\n", code=1).says("stop")
    with_containers(up_to_date, proxy="unhealthy", firewall="healthy", agent="unhealthy").says("compose")
    record(Path.cwd(), os.environ)
    assert exit_code(lambda: up(quiet=True)) == 0
    compose = [call.partition("docker-compose.yml ")[2] for call in up_to_date.calls if call.startswith("compose")]
    assert compose == ["rm --stop --force agent", "rm --stop --force proxy", START.strip()]


def test_recreates_agent_and_firewall_if_the_agent_lost_its_network(
    up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    up_to_date.says("exec agent0000000", out="the agent has no network\n", code=2)
    with_containers(up_to_date, proxy="healthy", firewall="healthy", agent="unhealthy").says("compose")
    assert exit_code(lambda: up(quiet=True)) == 0
    compose = [call.partition("docker-compose.yml ")[2] for call in up_to_date.calls if call.startswith("compose")]
    assert compose == ["rm --stop --force agent", "rm --stop --force firewall", START.strip()]
    assert capsys.readouterr().err == "the agent has no network: recreating both containers\n"


def test_dry_run_prints_the_start_without_calling_docker(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(lambda: up(dry_run=True)) == 0
    assert (capsys.readouterr().out.splitlines()[-2], docker.calls) == (f"docker {compose_line(project)}{START}", [])


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "Cannot connect to the Docker daemon at unix:///x.sock. Is the docker daemon running?",
            "error: unix:///x.sock: the Docker daemon does not answer\n",
        ),
        (
            "permission denied while trying to connect to the Docker daemon socket at unix:///x.sock: Get",
            "error: unix:///x.sock: no permission to use the Docker daemon\n",
        ),
    ],
)
def test_reports_a_docker_daemon_that_does_not_answer_or_denies_permission(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], said: str, expected: str
) -> None:
    assert project.exists()
    docker.says("ps --all", err=said, code=1)
    assert exit_code(up) == 1
    assert capsys.readouterr().err.startswith(expected)


def test_up_reports_a_missing_docker_command(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(project))
    assert exit_code(up) == 1
    assert capsys.readouterr().err.startswith(
        "error: docker: the docker command was not found\n  hint: sudo apt install docker.io"
    )


def test_reports_a_missing_compose_v2(up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up_to_date.says("ps --all").says(
        "compose", err="docker: 'compose' is not a docker command.\nSee 'docker --help'\n", code=1
    )
    assert exit_code(lambda: up(quiet=True)) == 1
    assert capsys.readouterr().err.startswith(
        "error: docker: the docker command has no compose v2\n  hint: sudo apt install docker-compose-v2\n"
    )


def test_starts_an_untrusted_stack_only_with_its_fingerprint(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project / ".devcontainer" / "docker-compose.yml"
    file.write_text(file.read_text().replace("services:", "x-mine: privileged\nservices:"))
    assert exit_code(up) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[-2] == (
        f"error: {project}: not trusted yet: .devcontainer/docker-compose.yml; there is no terminal to ask on"
    )
    fingerprint = said[-3].removeprefix("fingerprint ")
    assert said[-1] == f"  hint: run agent-sandbox trust at a terminal; or, after a review, use --yes {fingerprint}"
    assert docker.calls == []
    docker.says("ps --all").says("image inspect", err="none", code=1)
    exit_code(lambda: up(yes=fingerprint))
    assert docker.calls != []


def test_up_fetches_secrets_from_their_sources_and_starts_without_those_that_fail(
    up_to_date: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "correct horse")
    for name in ("A_KEY", "B_KEY"):
        recipes_of(project, os.environ).add(Recipe(name=name, hosts=("x.test",), source=f"env:{name}"))
    up_to_date.says("ps --all").says("secret set").says("up --detach")
    assert exit_code(up) == 0
    told = [call.partition(" secret set ")[2] for call in up_to_date.calls if " secret set " in call]
    assert told == [
        "A_KEY --host x.test --source env --folder /state/secrets",
        "B_KEY --host x.test --unresolved --folder /state/secrets",
    ]
    warning = "warning: env:B_KEY: the source of B_KEY gives no value: the variable B_KEY is not set; export B_KEY,"
    assert warning in capsys.readouterr().err
