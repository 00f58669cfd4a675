from pathlib import Path
from typing import Annotated

import pytest
import typer

from agent_sandbox.cli.framework.main import _guarded
from agent_sandbox.cli.framework.parameters import Argument, Option
from agent_sandbox.cli.framework.plain_help import PlainCommand


def sample(
    method: Annotated[str, Argument(help="GET, POST, ...")],
    files: Annotated[list[Path], typer.Argument(help="Some files.", metavar="FILE")],
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


def test_help_names_arguments_without_types(capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=PlainCommand)(_guarded(sample))
    with pytest.raises(SystemExit):
        app(args=["--help"], prog_name="sample")
    assert capsys.readouterr().out == EXPECTED


def test_a_missing_argument_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=PlainCommand)(_guarded(sample))
    with pytest.raises(SystemExit):
        app(args=[], prog_name="sample")
    assert capsys.readouterr().err == (
        "Usage: sample [OPTIONS] METHOD FILE... [OTHER]\n"
        "Try 'sample --help' for help.\n\n"
        "Error: Missing argument 'METHOD'. GET, POST, ...\n"
    )
    with pytest.raises(SystemExit):
        app(args=["GET", "x", "--unknown"], prog_name="sample")
    assert capsys.readouterr().err.endswith("\nError: No such option: --unknown\n")


def test_does_not_add_brackets_to_a_placeholder_that_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    def agent(
        words: Annotated[list[str] | None, Argument(help="What to run.", metavar="[AGENT] [-- ARG...]")] = None,
    ) -> None:
        """Do it."""

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=PlainCommand)(_guarded(agent))
    with pytest.raises(SystemExit):
        app(args=["--help"], prog_name="sample")
    assert capsys.readouterr().out.startswith("Usage: sample [OPTIONS] [AGENT] [-- ARG...]\n")
