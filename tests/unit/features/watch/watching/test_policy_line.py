import os
import stat
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.features.watch.watching.policy_line import (
    PolicyLine,
    edit,
    editor_command,
    policy_line,
    suggested_rule,
)
from agent_sandbox.host.user_dirs import config_directory
from agent_sandbox.problems import UserError
from table_tests import each

POLICY = Path(".devcontainer/policy.yaml")
HERE = PolicyLine(file=Path("/p/policy.yaml"), line=7)


@each(
    ("record", "line"),
    [
        ({"rule": "policy.yaml:6", "reason": "allowed by policy.yaml:9"}, 6),
        ({"rule": None, "reason": "no rule allows host a.test: policy.yaml:4 allows GET to host b.test"}, 4),
        ({"rule": None, "reason": "path /policy.yaml:99 is not: policy.yaml:4 allows GET"}, 4),
        ({"rule": "services/node.yaml:9", "reason": "allowed by service node"}, 1),
        ({"rule": "other/policy.yaml:9"}, 1),
        ({"rule": "policy.yaml:99999999"}, 1),
        ({}, 1),
    ],
)
def test_finds_the_line_of_the_rule_or_of_the_nearest_one(tmp_path: Path, record: dict[str, Any], line: int) -> None:
    assert policy_line(tmp_path, record) == PolicyLine(file=tmp_path / POLICY, line=line)


def test_the_users_layer_is_opened_where_it_is(project: Path) -> None:
    folder = config_directory(os.environ)
    assert folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.yaml").write_text("version: 1\n")
    assert policy_line(project, {"rule": "user/policy.yaml:3"}) == PolicyLine(file=folder / "policy.yaml", line=3)


@pytest.fixture
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with editors."""
    folder = tmp_path_factory.mktemp("editors") / "bin"
    folder.mkdir()
    for name in ("vim", "code", "hx"):
        (folder / name).write_text('#!/bin/sh\necho "$PWD $*" > "$SAID"\n')
        (folder / name).chmod(stat.S_IRWXU)
    return folder


@each(
    ("variables", "argv"),
    [
        ({"EDITOR": "vim"}, ("vim", "+7", "/p/policy.yaml")),
        ({"EDITOR": "nano", "VISUAL": "vim -n"}, ("vim", "-n", "+7", "/p/policy.yaml")),
        ({"VISUAL": "code --wait"}, ("code", "--wait", "--goto", "/p/policy.yaml:7")),
        ({"VISUAL": "hx"}, ("hx", "/p/policy.yaml:7")),
    ],
)
def test_passes_the_line_in_each_editors_syntax(
    programs: Path, variables: dict[str, str], argv: tuple[str, ...]
) -> None:
    program, *others = editor_command(HERE, {"PATH": str(programs), **variables}, project=Path("/p"))
    assert (Path(program).name, *others) == argv
    assert Path(program).parent == programs


@each("names", [("nano",), ("nano", "vi"), ("nano", "vi", "sensible-editor")])
def test_falls_back_to_an_editor_that_most_machines_have(
    tmp_path_factory: pytest.TempPathFactory, names: tuple[str, ...]
) -> None:
    folder = tmp_path_factory.mktemp("usual")
    for name in names:
        (folder / name).touch(mode=0o755)
    for unset in ({}, {"EDITOR": ""}):
        argv = editor_command(HERE, {"PATH": str(folder), **unset}, project=Path("/p"))
        assert argv == (str(folder / names[-1]), "+7", "/p/policy.yaml")


@each("variables", [{"EDITOR": "vim '"}, {"EDITOR": "emacs"}, {"EDITOR": "./vim"}])
def test_explains_how_to_configure_an_editor(programs: Path, variables: dict[str, str]) -> None:
    with pytest.raises(UserError) as raised:
        editor_command(HERE, {"PATH": str(programs), **variables}, project=Path("/p"))
    (problem,) = raised.value.problems
    assert str(problem) == "EDITOR: names no editor that is installed; export EDITOR=vim, or another one"


def test_an_editor_that_cannot_run_or_fails_is_an_error(programs: Path, project: Path) -> None:
    (programs / "vim").write_text("#!/nowhere/sh\n")
    (programs / "hx").write_text("#!/bin/sh\nexit 2\n")
    place = policy_line(project, {})
    for editor, why in (("vim", "cannot be run: No such file or directory"), ("hx", "ended with exit code 2")):
        with pytest.raises(UserError) as raised:
            edit(place, {"PATH": str(programs), "EDITOR": editor}, project=project)
        assert str(raised.value) == f"{programs / editor}: {why}; export EDITOR=vim, or another one"


def test_does_not_run_an_editor_from_the_project(programs: Path) -> None:
    with pytest.raises(UserError):
        editor_command(HERE, {"PATH": str(programs), "EDITOR": "hx"}, project=programs.parent)


def test_does_not_run_an_editor_from_the_project_by_its_path(
    programs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(programs)
    (tmp_path / "vim").symlink_to(programs / "hx")
    for editor in ("./hx", f"../{programs.name}/hx", str(programs / "hx"), str(tmp_path / "vim")):
        with pytest.raises(UserError):
            editor_command(HERE, {"PATH": "/usr/bin", "EDITOR": editor}, project=programs.parent)
    program, *_ = editor_command(HERE, {"PATH": "/usr/bin", "EDITOR": str(programs / "hx")}, project=Path("/p"))
    assert program == str(programs / "hx")


def test_the_editor_runs_beside_the_policy(programs: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAID", str(programs / "said"))
    place = policy_line(project, {})
    edit(place, {"PATH": f"{programs}:/usr/bin:/bin", "EDITOR": "hx"}, project=project)
    assert (programs / "said").read_text() == f"{place.file.parent} {place.file}:1\n"


DENIED = {
    "time": "2026-01-02T10:00:00.000Z",
    "event": "request",
    "decision": "deny",
    "rule": None,
    "cause": "host",
    "reason": "no rule allows host new.example.com",
    "scheme": "https",
    "host": "new.example.com",
    "port": 443,
    "method": "GET",
    "path": "/a",
}


def test_the_rule_for_a_denied_request_is_the_narrowest(project: Path) -> None:
    for cause in ("host", "ask"):
        assert suggested_rule(project, {**DENIED, "cause": cause}).rule.text == "GET https://new.example.com/a"


def test_no_rule_for_a_request_that_no_rule_could_allow(project: Path) -> None:
    with pytest.raises(UserError, match="no rule is suggested: "):
        suggested_rule(project, {**DENIED, "cause": "address"})
