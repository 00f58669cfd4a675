"""The process that relays the ports of a project, while `run` or `shell` is attached."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.features.ports import ports_keeper, relay
from agent_sandbox.features.ports.forward import Forward, Ports
from agent_sandbox.host.command import Command
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import read_project
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.paths import PROJECT_FILE

PARENT = 7
BOX = Command(argv=(sys.executable, "-I", relay.__file__))


@pytest.fixture
def named(project: Path) -> Project:
    """A trusted project that names a port."""
    found = read_project(project)
    return replace(found, made_of={PROJECT_FILE: "ports: [5173, '8080:3000']"}, files=(project,))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have a relay on this machine, and write down what the keeper prints."""
    said: list[str] = []
    monkeypatch.setattr(ports_keeper, "relay_in", lambda _: BOX)
    monkeypatch.setattr(ports_keeper, "_tell", said.append)
    monkeypatch.setattr(ports_keeper, "_be_quiet", lambda: said.append("quiet"))
    monkeypatch.setattr(ports_keeper, "LOOK_SECONDS", 0.01)
    return said


def until_quiet(said: list[str], times: int) -> int:
    return PARENT if said.count("quiet") < times else 1


def test_opens_each_possible_port_and_ends_with_its_parent(
    named: Project, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def opened(_: Ports, wanted: Forward) -> Forward:
        if wanted.here == 8080:
            raise UserError([Problem(where="8080", what="no")])
        return wanted

    monkeypatch.setattr(Ports, "open", opened)
    monkeypatch.setattr(os, "getppid", lambda: until_quiet(told, 1))
    monkeypatch.setattr(ports_keeper, "open_project", lambda *_, **__: named)
    ports_keeper.main(str(named.root), str(PARENT))
    assert told == ["http://127.0.0.1:5173  port 5173 of the sandbox", "8080: no", "quiet"]


def test_a_second_keeper_waits_for_the_first(
    named: Project, told: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def main() -> None:
        with (tmp_path / "lock").open("ab") as first, (tmp_path / "lock").open("ab") as second:
            assert ports_keeper._locked(first)
            waiting = asyncio.create_task(ports_keeper.keep(named, PARENT, second))
            for _ in range(2000):
                if told:
                    break
                await asyncio.sleep(0.01)
            first.close()
            await asyncio.wait_for(waiting, 20)

    named = replace(named, made_of={PROJECT_FILE: "ports: []"})
    monkeypatch.setattr(os, "getppid", lambda: until_quiet(told, 2))
    asyncio.run(main())
    assert told == ["the project's ports are open already, by another run or shell", "quiet", "quiet"]


def test_a_second_keeper_ends_with_its_parent(
    named: Project, told: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "lock").open("ab") as first, (tmp_path / "lock").open("ab") as second:
        assert ports_keeper._locked(first)
        monkeypatch.setattr(os, "getppid", lambda: 1)
        asyncio.run(ports_keeper.keep(named, PARENT, second))
    assert told[-1] == "quiet"
