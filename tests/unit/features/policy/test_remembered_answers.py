import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_sandbox.features.policy import remembered_answers as subject
from agent_sandbox.features.policy.registries import Machine
from agent_sandbox.features.policy.remembered_answers import FILE, INPUTS, remembered_answers
from agent_sandbox.policyfile.resolved import RESOLVED

ANSWER = (("npm's configuration", ("https", "npm.example.org", None)),)


class Npm:
    """An npm that counts its calls."""

    def __init__(self, url: str = "https://npm.example.org/") -> None:
        self.url = url
        self.asked = 0

    def __call__(self, argv: Sequence[str]) -> str:
        self.asked += argv[0] == "npm"
        return self.url if argv[0] == "npm" else ""


def machine(tmp_path: Path, npm: Npm, **environ: str) -> Machine:
    home = {"HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "bin")}
    return Machine(environ={**home, **environ}, run=npm, root=tmp_path)


def test_each_resolved_service_has_inputs() -> None:
    assert set(INPUTS) == set(RESOLVED)


def test_asks_only_once_if_nothing_changes(tmp_path: Path) -> None:
    npm = Npm()
    assert [remembered_answers("node", machine(tmp_path, npm)) for _ in range(3)] == [ANSWER] * 3
    assert npm.asked == 1


@pytest.mark.parametrize("change", ["home/.npmrc", "etc/npmrc", "bin/npm", "etc/npmrc/in-it"])
def test_asks_again_after_a_file_changes(tmp_path: Path, change: str) -> None:
    npm = Npm()
    remembered_answers("node", machine(tmp_path, npm))
    file = tmp_path / change
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    remembered_answers("node", machine(tmp_path, npm))
    assert npm.asked == 2


def test_asks_again_after_an_environment_variable_changes(tmp_path: Path) -> None:
    npm = Npm()
    for environ in ({}, {"npm_config_userconfig": "/x"}, {"npm_config_userconfig": "/y"}, {"OTHER": "z"}):
        remembered_answers("node", machine(tmp_path, npm, **environ))
    assert npm.asked == 4  # the last one has no npm variable again


def test_stores_no_credentials(tmp_path: Path) -> None:
    npm = Npm("https://me:hunter2@npm.example.org/")
    here = machine(tmp_path, npm, npm_config_registry="https://you:s3cret@npm.example.org/")
    remembered_answers("node", here)
    stored = (tmp_path / "home" / ".cache" / "agent-sandbox" / FILE).read_text()
    assert ("hunter2" in stored, "s3cret" in stored, "npm.example.org" in stored) == (False, False, True)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"node": 1}', '{"node": {"state": "STATE", "answer": [[1]]}}'])
def test_damaged_remembered_answers_are_replaced(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_state", lambda *_: "STATE")
    folder = tmp_path / "home" / ".cache" / "agent-sandbox"
    folder.mkdir(parents=True)
    (folder / FILE).write_text(text)
    assert remembered_answers("node", machine(tmp_path, Npm())) == ANSWER
    assert json.loads((folder / FILE).read_text())["node"]["state"] == "STATE"


def test_asks_each_time_if_the_answer_cannot_be_stored(tmp_path: Path) -> None:
    npm = Npm()
    (tmp_path / "home").write_text("a file")
    for here in (Machine(environ={}, run=npm, root=tmp_path), machine(tmp_path, npm)):
        assert [remembered_answers("node", here) for _ in range(2)] == [ANSWER] * 2
    assert npm.asked == 4
