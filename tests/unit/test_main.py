import os
import re
import sys
from pathlib import Path

import pytest

from agent_sandbox import __version__
from agent_sandbox.__main__ import main
from agent_sandbox.cli.framework.commands import COMMANDS, GROUPS
from agent_sandbox.cli.terminal.style import VARIABLE
from fake_tty import Screen


def run(monkeypatch: pytest.MonkeyPatch, *argv: str) -> int:
    monkeypatch.setattr(sys, "argv", ["agent-sandbox", *argv])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


def test_prints_the_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"agent-sandbox {__version__}\n"


def test_prints_the_version_beside_other_arguments(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--version", "init") == 0
    assert capsys.readouterr().out == f"agent-sandbox {__version__}\n"


@pytest.mark.parametrize(("argv", "table"), [((), COMMANDS | GROUPS), (("policy",), GROUPS["policy"][1])])
def test_no_command_is_a_usage_error_that_shows_the_help(
    argv: tuple[str, ...], table: dict[str, object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *argv, "--help") == 0
    text = capsys.readouterr().out
    assert re.findall("^  ([a-z]+) ", text.partition("\nCommands:\n")[2], re.MULTILINE) == [*table]
    assert run(monkeypatch, *argv, "-h") == 0
    assert capsys.readouterr().out == text
    assert run(monkeypatch, *argv) == 2
    assert capsys.readouterr() == ("", text)


def test_accepts_color_before_and_after_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "auto")  # which `main` replaces, for its process
    argv = ("policy", "services", "alpine", "--color", "always")
    assert run(monkeypatch, *argv) == 0
    assert capsys.readouterr().out.startswith("\x1b[1malpine\x1b[0m: ")
    assert run(monkeypatch, "--color=never", *argv[:3]) == 0
    assert capsys.readouterr().out.startswith("alpine: ")
    assert run(monkeypatch, *argv[:3], "--json", "--color=always") == 0
    assert "\x1b" not in capsys.readouterr().out


def test_an_invalid_color_is_a_usage_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "status", "--color", "purple") == 2
    assert capsys.readouterr() == ("", "error: --color: 'purple' is not one of auto, always, never\n")


def test_an_unknown_command_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "innit") == 2
    assert "No such command 'innit'" in capsys.readouterr().err


def test_completes_an_option(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "__complete", "completion", "--he") == 0
    assert capsys.readouterr().out == "--help\tShow this message and exit.\n"


def test_completion_of_nothing_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "__complete", "no-such-command", "x") == 0
    assert capsys.readouterr().out == ""


def test_help_is_wrapped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "44")
    monkeypatch.setattr(sys, "stdout", screen)
    assert run(monkeypatch, "secret", "--help") == 0
    lines = screen.getvalue().splitlines()
    start = lines.index("Commands:")
    assert lines[start + 1 : start + 3] == ["  setup   Set the API key or git token of", "          a service."]


def test_wraps_the_hint_for_an_unknown_command_at_the_terminals_width(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stderr", screen)
    assert run(monkeypatch, "stop") == 2
    assert screen.getvalue() == ("error: unknown command `stop`\n  hint: agent-sandbox down stops the\n        stack\n")


def test_ctrl_c_before_the_command_runs_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("agent_sandbox.__main__.run", interrupted)
    assert run(monkeypatch, "init", "claude") == 130


def test_removes_directories_of_the_project_from_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in ("app/.venv/bin", "bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "app" / ".devcontainer").mkdir()
    mine = f"{tmp_path / 'bin'}:/usr/bin"
    monkeypatch.setenv("PATH", f"{tmp_path / 'app' / '.venv' / 'bin'}:node_modules/.bin::.:{mine}")
    assert run(monkeypatch, "policy", "services", "alpine") == 0
    assert os.environ["PATH"] == mine
