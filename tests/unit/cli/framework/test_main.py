import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer import Argument, Option

from agent_sandbox.cli.framework import main
from agent_sandbox.cli.framework.main import PlainCommand
from agent_sandbox.problems import Problem, UserError
from fake_tty import Screen


def answer(monkeypatch: pytest.MonkeyPatch, function: Callable[[], object], *argv: str) -> int:
    """Run `version` as if this function were it."""
    module = types.ModuleType("agent_sandbox.features.doctor.commands.version")
    vars(module)["version"] = function
    monkeypatch.setitem(sys.modules, "agent_sandbox.features.doctor.commands.version", module)
    return main.run(["version", *argv]) or 0


def test_user_errors_exit_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def version() -> None:
        raise UserError([Problem(where="f:1", what="is wrong", hint="mend it"), Problem(where="", what="so is this")])

    assert answer(monkeypatch, version) == 1
    assert capsys.readouterr().err == "error: f:1: is wrong\n  hint: mend it\nerror: so is this\n"


def test_an_unknown_option_exits_with_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(monkeypatch, lambda: None, "--nonsense") == 2
    assert "No such option" in capsys.readouterr().err


def built(*, build: Annotated[bool, Option(help="Build it.")] = False) -> None:
    """Do it."""


def test_a_mistyped_option_names_the_nearest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(monkeypatch, built, "--bild") == 2
    assert capsys.readouterr().err == (
        "Usage: agent-sandbox version [OPTIONS]\n"
        "Try 'agent-sandbox version -h' for help.\n\n"
        "Error: No such option: --bild. Did you mean '--build'?\n"
    )


def test_a_usage_error_is_wrapped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stderr", screen)
    assert answer(monkeypatch, built, "--bild") == 2
    assert screen.getvalue().endswith("\nError: No such option: --bild. Did you\n  mean '--build'?\n")


def test_a_missing_choice_lists_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["completion"]) == 2
    text = "Error: Missing argument 'SHELL'. Choose from:\n\tbash,\n\tzsh,\n\tfish\n"
    assert capsys.readouterr().err.endswith(text)


def test_a_module_can_change_how_its_arguments_are_parsed() -> None:
    module = types.ModuleType("x")
    vars(module)["CONTEXT"] = {"ignore_unknown_options": True}
    assert main._context(module) == {"help_option_names": ["-h", "--help"], "ignore_unknown_options": True}
    assert main._context(None) == {"help_option_names": ["-h", "--help"]}


def test_imports_only_the_requested_command(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[tuple[str, ...]] = []

    def load(*path: str) -> types.ModuleType:
        loaded.append(path)
        module = types.ModuleType("x")
        setattr(module, path[-1], lambda: None)
        return module

    monkeypatch.setattr(main, "load", load)
    main.build_app(["policy", "check", "--json"])
    assert loaded == [("policy", "check")]
    main.build_app(["nonsense"])
    assert loaded == [("policy", "check")]


def test_a_command_is_found_for_completion() -> None:
    assert main.command_for(("completion",)).name == "completion"
    assert main.command_for(("policy", "check")).name == "check"


def sample(
    method: Annotated[str, Argument(help="GET, POST, ...")],
    files: Annotated[list[Path], Argument(help="Some files.", metavar="FILE")],
    other: Annotated[Path | None, Argument(help="One more.")] = None,
    *,
    count: Annotated[str, Option(help="How many.")] = "1",
    where: Annotated[Path | None, Option(help="Where to.", metavar="DIRECTORY")] = None,
    state: Annotated[Path | None, Option(help="What it was.")] = None,
    dry_run: Annotated[bool, Option(help="Do nothing.")] = False,
) -> None:
    """Do it."""


EXPECTED = """\
Usage: sample [OPTIONS] METHOD FILE... [OTHER]

  Do it.

Arguments:
  METHOD  GET, POST, ...
  FILE    Some files.
  OTHER   One more.

Options:
  --count COUNT      How many.  [default: 1]
  --where DIRECTORY  Where to.
  --state FILE       What it was.
  --dry-run          Do nothing.
  --help             Show this message and exit.
"""


def call(command: Callable[..., None], *argv: str) -> None:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=PlainCommand)(command)
    with pytest.raises(SystemExit):
        app(args=[*argv], prog_name="sample")


def test_help_names_arguments_without_types(capsys: pytest.CaptureFixture[str]) -> None:
    call(sample, "--help")
    assert capsys.readouterr().out == EXPECTED


def test_a_missing_argument_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    call(sample)
    assert capsys.readouterr().err == (
        "Usage: sample [OPTIONS] METHOD FILE... [OTHER]\n"
        "Try 'sample --help' for help.\n\n"
        "Error: Missing argument 'METHOD'. GET, POST, ...\n"
    )
    call(sample, "GET", "x", "--unknown")
    assert capsys.readouterr().err.endswith("\nError: No such option: --unknown\n")


def test_does_not_add_brackets_to_a_placeholder_that_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    def agent(
        words: Annotated[list[str] | None, Argument(help="What to run.", metavar="[AGENT] [-- ARG...]")] = None,
    ) -> None:
        """Do it."""

    call(agent, "--help")
    assert capsys.readouterr().out.startswith("Usage: sample [OPTIONS] [AGENT] [-- ARG...]\n")
