"""`ls`, `down --all`, `destroy --orphans`, and `--path NAME`: all stacks of a machine."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.features.session.commands.run import run
from agent_sandbox.features.session.commands.shell import shell
from agent_sandbox.features.stack.commands.destroy import destroy
from agent_sandbox.features.stack.commands.down import down
from agent_sandbox.features.stack.commands.ls import ENTER, LEAVE, ls, redrawing
from agent_sandbox.features.stack.commands.status import status
from agent_sandbox.features.traffic.commands.logs import logs
from agent_sandbox.images import proxy_name
from agent_sandbox.project.installed import images_of, read_project
from fake_docker import FakeDocker
from fake_stack import inspected
from fake_tty import Screen

PROJECT = "com.docker.compose.project"
UNKNOWN = "its directory is unknown: another user's, or never trusted here"
GONE = "its directory is gone: agent-sandbox destroy --orphans"
SIZES = [
    {"Name": "app-1_ca-private", "Size": "1.5kB", "Labels": f"{PROJECT}=app-1"},
    {"Name": "app-1_state", "Size": "2MB", "Labels": f"{PROJECT}=app-1"},
    {"Name": "other_ca-private", "Size": "N/A", "Labels": f"{PROJECT}=other"},
    {"Name": "theirs_db", "Size": "9GB", "Labels": f"{PROJECT}=theirs"},
]


def container(service: str, state: str, project: str, root: Path, image: str = proxy_name()) -> dict[str, Any]:
    """Return the `docker inspect` output of a container that started five minutes ago."""
    found: dict[str, Any] = inspected(service, state)
    started = datetime.now(UTC) - timedelta(minutes=5, seconds=30)
    found["Id"] = f"{project[0]}{found['Id'][1:]}"
    found["State"]["StartedAt"] = started.isoformat()
    found["Config"]["Image"] = image
    found["Config"]["Labels"] |= {PROJECT: project, f"{PROJECT}.working_dir": f"{root}/.devcontainer"}
    return found


@pytest.fixture
def machine(project: Path, docker: FakeDocker) -> FakeDocker:
    """Fake the stack of this project, volumes of an untrusted stack, and a compose project of the user."""
    found = [container(name, "healthy", "app-1", project) for name in ("proxy", "firewall", "agent")]
    found.append(container("db", "running", "theirs", Path("/srv/theirs"), image="postgres"))
    docker.says("volume ls", out="".join(f"{row['Labels'].partition('=')[2]} {row['Name']}\n" for row in SIZES))
    docker.says("ps --all --quiet", out="".join(f"{one['Id']}\n" for one in found))
    docker.says("inspect --type container", out=json.dumps(found))
    memory = [{"ID": one["Id"], "MemUsage": "100MiB / 8GiB"} for one in found[:3]]
    docker.says("stats --no-stream --no-trunc", out="\n".join(map(json.dumps, memory)))
    docker.says("system df --verbose", out=json.dumps(SIZES))
    docker.says("proxy status --control", out=json.dumps({"requests": {"allowed": 7, "denied": 3}}))
    images = images_of(read_project(project))
    labels = ({"tags": [image.name], "labels": {"agent-sandbox.digest": image.digest}} for image in images)
    return (
        docker.says("image inspect", out="\n".join(map(json.dumps, labels)))
        .says("compose")
        .says("volume prune")
        .says("stop")
    )


def test_lists_all_stacks_and_no_other_containers(
    machine: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (agent,) = read_project(project).agents
    assert exit_code(ls) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"NAME   {'AGENT':<{len(agent)}}  STATE    SINCE  MEMORY  DISK  DENIED",
        f"app-1  {agent}  running  5m     315 MB  2 MB  3",
        f"  {project}",
        f"other  {'-':<{len(agent)}}  down     -      -       0 B   -",
        f"  {UNKNOWN}",
    ]
    assert not any("theirs" in call for call in machine.calls)


@pytest.mark.usefixtures("machine")
def test_json_output_has_bytes_and_times(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: ls(json=True)) == 0
    first, second = json.loads(capsys.readouterr().out)["stacks"]
    assert datetime.fromisoformat(first.pop("since")) < datetime.now(UTC)
    assert first == {
        "name": "app-1",
        "root": str(project),
        "agents": list(read_project(project).agents),
        "state": "running",
        "memory": 3 * 100 * 1024 * 1024,
        "disk": 2_001_500,
        "denied": 3,
        "orphaned": False,
        "notes": [],
        "clone": None,
    }
    assert (second["name"], second["root"], second["notes"]) == ("other", None, [UNKNOWN])


def test_shows_values_that_the_engine_does_not_report_as_unknown(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [container("proxy", "unhealthy", "app-1", project), container("agent", "exited", "app-1", project)]
    docker.says("volume ls").says("ps --all --quiet", out="1\n2\n").says("inspect --type", out=json.dumps(found))
    docker.says("stats", code=1).says("system df", out="?").says("proxy status", out="?")
    docker.says("image inspect", out=json.dumps({"tags": [proxy_name()], "labels": {"agent-sandbox.digest": "old"}}))
    assert exit_code(ls) == 0
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()[1:]] == [
        f"app-1 {read_project(project).agents[0]} not ready - - - -",
        str(project),
        "proxy unhealthy",
        "its images are outdated: agent-sandbox up",
    ]


def test_explains_how_to_start_a_stack_if_there_are_no_stacks(
    docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    docker.says("volume ls").says("ps --all").says("system df", out="[]")
    assert exit_code(ls) == 0
    said = "no stacks on this Docker engine: agent-sandbox run AGENT, in a project, starts one\n"
    assert capsys.readouterr() == ("", said)


def test_destroy_orphans_removes_a_stack_whose_directory_is_gone(
    machine: FakeDocker, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project.parent)
    assert exit_code(lambda: destroy(orphans=True, yes=True)) == 0
    other = "nothing to remove: every stack on this Docker engine has its directory, or its directory is unknown\n"
    assert capsys.readouterr().err == other
    shutil.rmtree(project)
    assert exit_code(ls) == 0
    assert f"  {GONE}" in capsys.readouterr().out.splitlines()
    assert exit_code(lambda: destroy(orphans=True)) == 1
    assert capsys.readouterr().err == (
        "error: app-1: this removes the agent's state, and cannot be confirmed without a terminal\n"
        "  hint: agent-sandbox destroy --orphans --yes\n"
    )
    assert exit_code(lambda: destroy(orphans=True, yes=True)) == 0
    assert capsys.readouterr().err == "removed app-1\n"
    assert [call.split()[2] for call in machine.calls if call.endswith("down --remove-orphans --volumes")] == ["app-1"]


def test_down_all_stops_all_stacks(machine: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: down(all_=True)) == 0
    assert [call.split()[2] for call in machine.calls if call.endswith("down --remove-orphans")] == ["app-1"]
    assert capsys.readouterr().err.splitlines()[0] == "app-1"


def test_down_all_leaves_stacks_alone_that_the_user_does_not_trust(
    machine: FakeDocker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/nowhere")  # as another user has it
    assert exit_code(lambda: down(all_=True)) == 0
    assert [call for call in machine.calls if "down" in call] == []
    assert capsys.readouterr().err == "left alone, because no project that you trust has it: app-1\n"


def test_commands_find_a_stack_by_its_name_from_any_directory(
    machine: FakeDocker,
    project: Path,
    became: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir("/")
    name = Path("app-1")
    assert exit_code(lambda: status(path=name, json=True)) == 0
    assert json.loads(capsys.readouterr().out)["root"] == str(project)
    assert exit_code(lambda: logs(["agent"], path=name)) == 0
    assert [call.split()[2] for call in machine.calls if call.endswith("logs --no-color agent")] == ["app-1"]
    assert exit_code(lambda: shell(path=name)) == 0
    assert exit_code(lambda: run([], path=name)) == 0
    assert (len(became), became[1].rpartition(" in ")[2]) == (2, str(project))
    for command in (status, logs, shell, run):
        assert exit_code(partial(command, path=Path("app-2"))) == 1
        assert capsys.readouterr().err.splitlines()[0] == "error: /app-2: no stack in this directory"


def looks(monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], object]) -> None:
    """Let `ls --watch` refresh after each of these changes, then simulate Ctrl-C."""
    waiting = iter(changes)

    def pause(seconds: float) -> None:
        assert seconds == 2.0
        change = next(waiting, None)
        if change is None:
            raise KeyboardInterrupt
        change()

    monkeypatch.setattr("agent_sandbox.features.stack.commands.ls.sleep", pause)


def test_watch_shows_the_table_until_ctrl_c_and_measures_the_disk_once(
    machine: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks(monkeypatch, lambda: None)
    for name, value in (("COLUMNS", "80"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    assert exit_code(lambda: ls(watch=True)) == 130
    first, second = screen.getvalue().removeprefix(ENTER).removesuffix(LEAVE).split("\x1b[H")[1:]
    assert first == second
    rows = [row.removeprefix("\x1b[2K") for row in first.removesuffix("\x1b[J").split("\n")]
    assert rows[0].startswith("NAME ")
    assert rows[-2:] == ["", "Ctrl-C ends"]
    assert all(len(row) <= 80 for row in rows)
    assert "2 MB" in rows[1]
    assert len([call for call in machine.calls if call.startswith("system df")]) == 1
    assert capsys.readouterr().err == ""


def test_watch_reports_that_there_are_no_stacks(docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    docker.says("volume ls").says("ps --all").says("system df", out="[]")
    looks(monkeypatch)
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    assert exit_code(lambda: ls(watch=True)) == 130
    assert "no stacks on this Docker engine" in screen.getvalue()


def test_watch_as_json_prints_a_line_for_each_change(
    machine: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def now_says(words: str, out: str) -> None:
        machine.says(words, out=out)
        machine.rules.insert(0, machine.rules.pop())
        machine.says("and so it is written")

    looks(
        monkeypatch,
        lambda: now_says("stats --no-stream --no-trunc", ""),  # only their memory changes
        lambda: now_says("proxy status --control", json.dumps({"requests": {"denied": 4}})),
        lambda: now_says("volume ls", "app-1 app-1_ca-private\n"),
    )
    assert exit_code(lambda: ls(watch=True, json=True)) == 130
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["name"], one["state"], one["denied"]) for one in found] == [
        ("app-1", "running", 3),
        ("other", "down", None),
        ("app-1", "running", 4),
        ("other", "removed", None),
    ]


def test_watch_needs_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: ls(watch=True)) == 1
    assert capsys.readouterr().err == (
        "error: --watch: needs a terminal\n  hint: --json --watch prints a line for each change\n"
    )


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have 20 columns, and colours only if a test asks."""
    for name, value in (("COLUMNS", "20"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("narrow")
def test_each_screen_replaces_the_previous_one_and_the_terminal_is_restored() -> None:
    screen = Screen()
    with redrawing(screen) as show:
        show(["one", styled(("two\x1b[2J", "warn"))])
        show([])
    first, second = "\x1b[H\x1b[2Kone\n\x1b[2Ktwo\\x1b[2J\x1b[J", "\x1b[H\x1b[J"
    assert screen.getvalue() == f"{ENTER}{first}{second}{LEAVE}"


@pytest.mark.usefixtures("narrow")
def test_restores_the_terminal_after_a_failure() -> None:
    screen = Screen()
    with pytest.raises(KeyboardInterrupt), redrawing(screen):
        raise KeyboardInterrupt
    assert screen.getvalue() == f"{ENTER}{LEAVE}"


@pytest.mark.usefixtures("narrow")
def test_lines_that_do_not_fit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(Screen, "fileno", lambda _self: 1, raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda _number: os.terminal_size((20, 3)))
    with redrawing(screen) as show:
        show(["a word or two, and more", "second", "third"])
    shown = screen.getvalue().removeprefix(f"{ENTER}\x1b[H").removesuffix(f"\x1b[J{LEAVE}")
    rows = [row.removeprefix("\x1b[2K") for row in shown.split("\n")]
    assert rows == ["a word or two, and", "  more", "... 2 more lines do not fit"]
