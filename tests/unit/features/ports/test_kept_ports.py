"""The ports that a project file names, open as long as `run` or `shell` is attached."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent_sandbox.features.ports import kept_ports, ports_keeper
from agent_sandbox.project.installed import read_project
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.paths import PROJECT_FILE


@pytest.fixture
def named(project: Path) -> Project:
    """A trusted project that names a port."""
    found = read_project(project)
    return replace(found, made_of={PROJECT_FILE: "ports: [5173, '8080:3000']"}, files=(project,))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Have a keeper that prints two lines and goes on, on a terminal."""
    calls: list[tuple[str, ...]] = []
    real = subprocess.Popen

    def start(argv: tuple[str, ...], **options: Any) -> Any:  # noqa: ANN401 - as Popen has it
        calls.append(argv)
        return real((sys.executable, "-c", "import os; print('one\\ntwo\x1b', flush=True); os.close(1)"), **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(kept_ports, "at_terminal", lambda: True)
    return calls


def test_starts_a_keeper_and_prints_its_output(
    named: Project, started: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    kept_ports.keep_ports(named)
    assert started == [(sys.executable, "-P", "-m", ports_keeper.__name__, str(named.root), str(os.getpid()))]
    assert capsys.readouterr().err == "one\ntwo\\x1b\n"


@pytest.mark.parametrize("why", ["no terminal", "not trusted", "no ports"])
def test_no_keeper_is_started_without_a_terminal_trust_or_ports(
    named: Project, started: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    match why:
        case "no terminal":
            monkeypatch.setattr(kept_ports, "at_terminal", lambda: False)
        case "not trusted":
            named = replace(named, files=())
        case _:
            named = replace(named, made_of={PROJECT_FILE: "ports: []"})
    kept_ports.keep_ports(named)
    assert started == []
