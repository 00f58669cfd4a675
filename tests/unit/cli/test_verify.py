import json
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.verify import verify
from fake_docker import FakeDocker
from fake_stack import with_containers

PROBE = "exec agent0000000 /usr/local/lib/agent-sandbox/probe.py"


CLOSED = {"group": "direct", "tried": "tcp", "verdict": "closed", "told": "refused", "mend": "", "ms": 1}
OPEN = {"group": "names", "tried": "dns", "verdict": "LEAK", "told": "sent", "mend": "look", "ms": 2}
NONE_SHARES = {
    "group": "network",
    "tried": "containers in one namespace",
    "verdict": "closed",
    "told": "only the agent's own",
    "mend": "",
    "ms": 0,
}
AGENT, OTHER = "agent".ljust(64, "0"), "f" * 64


def said(*probes: object) -> str:
    return json.dumps({"ok": True, "probes": probes})


def running(docker: FakeDocker, *rows: str) -> None:
    """Have containers with these networks on the engine: `ID NAME MODE`."""
    docker.says("inspect --type container --format", out="".join(f"{row}\n" for row in rows))
    docker.says("ps --quiet --no-trunc", out="".join(f"{row.split()[0]}\n" for row in rows))


def test_what_the_probe_found_is_printed_and_counted(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says(PROBE, out=said(CLOSED, OPEN), code=1)
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 1
    assert capsys.readouterr().out.splitlines() == [
        "closed  direct      tcp                                   refused",
        "LEAK    names       dns                                   sent",
        "        fix:  look",
        "closed  network     containers in one namespace           only the agent's own",
        "3 tried, 1 got out",
    ]


def test_nothing_that_got_out_is_exit_code_0(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says(PROBE, out=said(CLOSED, {**CLOSED, "verdict": "note"}))
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 tried, none got out"


@pytest.mark.parametrize("found", [(CLOSED,), ({**CLOSED, "verdict": "opened"},)])
def test_a_verdict_that_is_unknown_or_a_probe_that_failed_is_not_ok(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], found: tuple[object, ...]
) -> None:
    assert project.exists()
    docker.says(PROBE, out=said(*found), code=1)
    with_containers(docker, agent="healthy")
    assert exit_code(lambda: verify(json=True)) == 1
    assert json.loads(capsys.readouterr().out) == {"ok": False, "probes": [*found, NONE_SHARES]}


def test_another_container_in_the_agents_namespace_is_a_leak(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says(PROBE, out=said(CLOSED))
    running(docker, f"{AGENT} /app-1-agent-1 container:{'e' * 64}", f"{OTHER} /db container:{AGENT}")
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        "LEAK    network     containers in one namespace           db",
        "        fix:  docker stop db",
        "2 tried, 1 got out",
    ]


def test_options_are_the_probes(project: Path, docker: FakeDocker) -> None:
    assert project.exists()
    docker.says(PROBE, out=said(CLOSED))
    with_containers(docker, agent="unhealthy")
    assert exit_code(lambda: verify(full=True, json=True, capture="198.51.100.9:9")) == 0
    assert f"{PROBE} --json --full --capture 198.51.100.9:9" in docker.calls


def test_what_the_probe_says_can_not_steer_a_terminal(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says(PROBE, out=said({**CLOSED, "told": "\x1b[2J\nclosed"}))
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("  \\x1b[2J\\x0aclosed")


@pytest.mark.parametrize(
    "out",
    [
        "",
        "[]",
        "all is well",
        '{"probes": 1}',
        '{"probes": []}',
        '{"probes": [{}]}',
        "[" * 100_000,
        said({**CLOSED, "ms": "1"}),
        f'{{"probes": [{"9" * 5000}]}}',
    ],
)
def test_what_no_probe_prints_is_refused(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], out: str
) -> None:
    assert project.exists()
    docker.says(PROBE, out=out)
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 1
    assert capsys.readouterr().err == (
        f"error: the probe: unexpected output: {out[:200]}\n"
        "  hint: agent-sandbox up recreates the agent container if it is damaged\n"
    )


def test_an_agent_that_does_not_run_is_told(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, agent="exited")
    assert exit_code(verify) == 1
    assert capsys.readouterr().err.startswith("error: app-1: the agent is exited with code 1\n")


def test_a_container_without_the_probe_is_told(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says(PROBE, err="OCI runtime exec failed: no such file or directory\n", code=126)
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 1
    assert "no such file or directory" in capsys.readouterr().err


def test_the_proxy_is_told_when_verification_starts_and_ends(project: Path, docker: FakeDocker) -> None:
    assert project.exists()
    docker.says("agent_sandbox.proxy verify", out='{"ok": true}').says(PROBE, out="no json")
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 1
    told = [line for line in docker.calls if "agent_sandbox.proxy verify" in line or PROBE in line]
    assert [line.partition(" --seconds ")[2].partition(" ")[0] for line in told] == ["120", "", "0"]
