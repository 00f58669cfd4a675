import json
import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.traffic.commands.logs import logs
from fake_docker import FakeDocker
from fake_refusals import refusals_said
from fake_stack import with_containers
from run_cli import Ask


def test_prints_compose_logs_with_escaped_control_characters(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("logs --no-color --follow --tail 3 proxy", out="\x1b[2Kproxy-1  | a\nproxy-1  | \x1b]0;title\x07\n")
    with_containers(docker, proxy="healthy", agent="healthy")
    assert exit_code(lambda: logs(["proxy"], follow=True, tail=3)) == 0
    assert capsys.readouterr().out == "proxy-1  | a\nproxy-1  | \\x1b]0;title\\x07\n"


def test_prints_the_logs_of_a_service_beside_the_sandbox(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, proxy="healthy", **{"firewall.db": "healthy", "db": "exited"})
    docker.says("logs --no-color db", out="db-1  | no license found\n")
    assert exit_code(lambda: logs(["db"])) == 0
    assert capsys.readouterr().out == "db-1  | no license found\n"


def test_ctrl_c_ends_following_without_output(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("logs --no-color --follow", script=f"kill -INT {os.getpid()}; exec sleep 5")
    with_containers(docker, proxy="healthy")
    assert exit_code(lambda: logs(raw=True, follow=True)) == 130
    assert capsys.readouterr() == ("", "")


def test_rejects_an_unknown_container_and_names_the_known_containers(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, proxy="healthy", agent="healthy")
    assert exit_code(lambda: logs(["prox"])) == 1
    expected = "error: prox: the stack has no such container\n  hint: one of: agent, proxy\n"
    assert capsys.readouterr().err == expected


def test_fails_if_the_stack_is_not_running(
    project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("ps --all")
    assert exit_code(lambda: logs(raw=True)) == 1
    assert capsys.readouterr().err == "error: app-1: the stack is not running\n  hint: agent-sandbox up\n"
    monkeypatch.setattr("agent_sandbox.features.stack.execute.path_option", lambda *_, **__: " --path fix-1")
    assert exit_code(lambda: logs(raw=True)) == 1
    assert capsys.readouterr().err.endswith("  hint: agent-sandbox up --path fix-1\n")


OF_CONTAINERS = "error: {0}: the output of containers has no such lines\n  hint: agent-sandbox logs {0}\n"
OF_FIREWALL = (
    "error: --firewall: takes no container names and no --follow, --raw or --denied\n"
    "  hint: agent-sandbox logs --firewall\n"
)
PLACES = [(["tcp", "10.0.0.2", 22], 80_000, 3), (["udp", "192.0.2.1", 53], 86_000, 1)]


@pytest.fixture
def refused(project: Path, docker: FakeDocker) -> FakeDocker:
    """Fake a firewall that refused two destinations."""
    assert project.exists()
    docker.says("firewall0000 /usr/local/lib/agent-sandbox/refusals", out=refusals_said(places=PLACES, ipv6="1"))
    return with_containers(docker, firewall="healthy", agent="healthy")


def test_lists_refusals_of_the_firewall_by_destination(refused: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused.rules
    assert exit_code(lambda: logs(firewall=True)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ", 1)[-1] for line in lines] == [
        "tcp 10.0.0.2:22  3 times  (the address of every allowed name; the proxy serves HTTP and HTTPS there)",
        "udp 192.0.2.1:53  once",
        "IPv6: 1 packet had no route, including those of the sandbox's own checks",
    ]


@pytest.mark.parametrize(("tail", "ports"), [(None, [22, 53]), (1, [53]), (0, [])])
def test_json_output_has_one_refusal_per_line(
    refused: FakeDocker, capsys: pytest.CaptureFixture[str], tail: int | None, ports: list[int]
) -> None:
    assert refused.rules
    assert exit_code(lambda: logs(firewall=True, json=True, tail=tail)) == 0
    assert [json.loads(line)["port"] for line in capsys.readouterr().out.splitlines()] == ports


WHY = "agent-sandbox logs firewall says why, and agent-sandbox up updates a stack of an earlier version"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("healthy", f"error: firewall: what the firewall refuses is not counted\n  hint: {WHY}\n"),
        ("exited", "error: app-1: the firewall is not running\n  hint: agent-sandbox up\n"),
    ],
)
def test_fails_if_the_firewall_does_not_count_or_does_not_run(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], state: str, said: str
) -> None:
    assert project.exists()
    with_containers(docker, firewall=state)
    assert exit_code(lambda: logs(firewall=True)) == 1
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--raw", "--json"), OF_CONTAINERS.format("--json")),
        (("proxy", "--json"), OF_CONTAINERS.format("--json")),
        (("agent", "--denied"), OF_CONTAINERS.format("--denied")),
        *((("--firewall", word), OF_FIREWALL) for word in ("proxy", "--follow", "--raw", "--denied")),
    ],
)
def test_rejects_options_that_exclude_each_other(ask: Ask, words: tuple[str, ...], said: str) -> None:
    answer = ask("logs", *words)
    assert (answer.code, answer.out, answer.err) == (1, "", said)


@pytest.mark.parametrize("command", [("logs",), ("proxy", "logs")])
def test_prints_the_decisions_of_the_proxy_unless_a_container_is_named(
    project: Path, docker: FakeDocker, ask: Ask, command: tuple[str, ...]
) -> None:
    assert project.exists()
    line = {"event": "request", "decision": "deny", "method": "GET", "host": "a.test", "reason": "no"}
    with_containers(docker, proxy="healthy").says("log --file", out=json.dumps(line) + "\n")
    answer = ask(*command, "--denied", "--tail", "3", "--json")
    assert (answer.code, json.loads(answer.out)) == (0, line)
    assert docker.calls[-1].endswith(" --tail 3 --denied")
