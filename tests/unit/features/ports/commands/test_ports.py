import json
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.ports import forward as forwarding
from agent_sandbox.features.ports.commands.ports import ports
from agent_sandbox.features.ports.forward import Forward
from agent_sandbox.host.command import Command
from fake_docker import FakeDocker
from fake_stack import with_containers


@pytest.fixture
def running(project: Path, docker: FakeDocker) -> FakeDocker:
    """Fake a running stack."""
    assert project.exists()
    return with_containers(docker, agent="healthy")


def test_lists_listening_ports_with_their_programs(running: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        {"port": 3000, "addresses": ["any"], "command": "node \x1b[2J"},
        {"port": 80, "addresses": [], "command": ""},
    ]
    running.says("python3 -I -c", out=json.dumps(found))
    assert exit_code(ports) == 0
    assert capsys.readouterr().out.splitlines() == [
        "PORT   PROGRAM",
        "3000   node \\x1b[2J",
        "80     -",
        "to open one on this machine: agent-sandbox ports 3000",
    ]
    assert exit_code(lambda: ports(json=True)) == 0
    assert json.loads(capsys.readouterr().out) == {"ports": found}


@pytest.mark.parametrize("out", ["", "{}x", '[{"port": "x"}]', "[1]", '[{"port": 1}]'])
def test_an_invalid_answer_is_an_error(running: FakeDocker, capsys: pytest.CaptureFixture[str], out: str) -> None:
    running.says("python3 -I -c", out=out)
    assert exit_code(ports) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_the_sandbox_cannot_add_lines_to_the_error(running: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    running.says("python3 -I -c", err="no\nhint: run this\nerror: \x1b[1mmust\n\n", code=1)
    assert exit_code(ports) == 1
    assert capsys.readouterr().err == (
        "error: looking for open ports: docker failed: error: \\x1b[1mmust\n"
        "  hint: run agent-sandbox doctor to find the cause\n"
    )


def test_reports_that_nothing_listens(running: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    running.says("python3 -I -c", out="[]")
    assert exit_code(ports) == 0
    assert capsys.readouterr().err == "nothing listens in the sandbox\n"


@pytest.mark.parametrize(
    "text", ["0", "65536", "x", "1:2:3", "-1", "8080:", "3000/udp", "\u0663000", "127.0.0.1:80:80"]
)
def test_an_invalid_port_is_an_error(running: FakeDocker, capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert exit_code(lambda: ports([text])) == 1
    assert capsys.readouterr().err == (
        f"error: {text}: is not a TCP port\n"
        "  hint: write a port, as in 3000, or PORT_HERE:PORT_INSIDE, as in 8080:3000; for a service, 5432:db:5432\n"
    )
    assert running.calls == []


def test_rejects_a_port_of_the_machine_that_is_named_twice(
    running: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(lambda: ports(["80", "80:90"])) == 1
    assert capsys.readouterr().err == "error: 80: this port of your machine is named twice\n"
    assert running.calls == []


@pytest.mark.parametrize(
    ("outcome", "code", "said"),
    [
        ("", 1, "the sandbox ended the relay: agent-sandbox status\n"),
        ("gone", 1, "the sandbox ended the relay: gone: agent-sandbox status\n"),
        (KeyboardInterrupt, 0, "closed\n"),
    ],
)
def test_prints_the_address_of_each_port_and_why_forwarding_ended(
    running: FakeDocker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    outcome: str | type[BaseException],
    code: int,
    said: str,
) -> None:
    async def relayed(
        command: Command, wanted: tuple[Forward, ...], *, opened: object, refused: object, live: object
    ) -> str:
        assert live is None  # there is no terminal
        assert command.argv[-4:-1] == ("python3", "-I", "-c")
        assert wanted == (Forward(here=8080, inside=3000), Forward(here=5432, inside=5433, service="db"))
        assert callable(opened)
        assert callable(refused)
        opened(Forward(here=8081, inside=3000))
        opened(wanted[1])
        refused(wanted[0])
        refused(wanted[1])
        if not isinstance(outcome, str):
            raise outcome
        return outcome

    monkeypatch.setattr(forwarding, "forward", relayed)
    assert running.rules
    assert exit_code(lambda: ports(["8080:3000", "5432:db:5433"])) == code
    opened = "http://127.0.0.1:8081  port 3000 of the sandbox\n127.0.0.1:5432  port 5433 of db\n"
    refused = "nothing listens on port 3000 of the sandbox\nnothing listens on port 5433 of db\n"
    assert capsys.readouterr().err == f"{opened}{refused}{said}"
