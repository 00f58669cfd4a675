from pathlib import Path

import pytest

from agent_sandbox.cli.errors import exit_code
from agent_sandbox.cli.verify import verify
from fake_docker import FakeDocker
from fake_stack import with_containers

PROBE = "exec agent0000000 /usr/local/lib/agent-sandbox/probe.py"


@pytest.mark.parametrize(("code", "said"), [(0, "2 tried, none got out"), (1, "2 tried, 1 got out")])
def test_what_the_probe_says_is_printed_and_its_verdict_is_ours(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], code: int, said: str
) -> None:
    assert project.exists()
    docker.says(PROBE, out=f"closed  direct  tcp\n{said}\n", code=code)
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == code
    assert capsys.readouterr().out == f"closed  direct  tcp\n{said}\n"


def test_options_are_the_probes(project: Path, docker: FakeDocker) -> None:
    assert project.exists()
    docker.says(PROBE)
    with_containers(docker, agent="unhealthy")
    assert exit_code(lambda: verify(full=True, json=True, capture="198.51.100.9:9")) == 0
    assert docker.calls[-1] == f"{PROBE} --full --json --capture 198.51.100.9:9"


def test_what_the_probe_says_can_not_steer_a_terminal(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says(PROBE, out="\x1b[2J\n")
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 0
    assert capsys.readouterr().out == "\\x1b[2J\n"


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
