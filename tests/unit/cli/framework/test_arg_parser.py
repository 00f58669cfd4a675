import inspect
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import typer.main
from hypothesis import example, given
from hypothesis import strategies as st

from agent_sandbox.cli.framework.arg_parser import plain_arguments
from agent_sandbox.cli.framework.main import CONTEXT, _guarded
from agent_sandbox.cli.framework.parameters import Argument, Option
from agent_sandbox.cli.init import init
from agent_sandbox.stack.workspace import Ide
from table_tests import each

called: list[dict[str, Any]] = []


def recorded(**arguments: object) -> None:
    called.append(arguments)


vars(recorded)["__signature__"] = inspect.signature(init)
recorded.__annotations__ = {name: one.annotation for name, one in inspect.signature(init).parameters.items()}
APP = typer.Typer(add_completion=False, rich_markup_mode=None)
APP.command(context_settings=CONTEXT)(_guarded(recorded))
COMMAND = typer.main.get_command(APP)


def typers(words: list[str]) -> dict[str, Any] | None:
    """Return what typer calls the command with, or None where it refuses."""
    called.clear()
    try:
        COMMAND.main(args=words, standalone_mode=True, prog_name="x")
    except SystemExit as left:
        if left.code:
            return None
    return called[0] if called else None


def quick(words: list[str]) -> dict[str, Any] | None:
    found = plain_arguments(init, words)
    if found is None:
        return None
    defaults = {name: one.default for name, one in inspect.signature(init).parameters.items()}
    return defaults | found


words = st.lists(
    st.sampled_from(
        ["claude", "x", "-x", "--", "-", "", "--path", "--path=a b", "--name", "--name=-x", "--ide", "--ide=vscode"]
    )
    | st.sampled_from(
        [
            "vscode",
            "emacs",
            "--force",
            "--force=1",
            "--detect",
            "--dry-run",
            "--json",
            "--jso",
            "-h",
            "--help",
            "--ide=x",
        ]
    ),
    max_size=5,
)


@given(words)
@example(["claude", "--path", "-x"])
@example(["claude", "--path"])
@example(["claude", "--name", ""])
@example(["--force", "claude", "--ide", "none", "--path", "a"])
def test_where_it_answers_typer_answers_the_same(words: list[str]) -> None:
    found = quick(words)
    if found is not None:
        assert found == typers(words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["claude"], {"agents": ["claude"]}),
        (["--force", "claude", "--path", "a b"], {"agents": ["claude"], "force": True, "path": Path("a b")}),
        (["claude", "--ide=none", "--json"], {"agents": ["claude"], "ide": Ide.NONE, "as_json": True}),
        (["claude", "--force", "codex"], {"agents": ["claude", "codex"], "force": True}),
        (["claude", "--name=-x"], {"agents": ["claude"], "name": "-x"}),
    ],
)
def test_plain_words_need_no_typer(words: list[str], expected: dict[str, Any]) -> None:
    assert plain_arguments(init, words) == expected


@each(
    "words",
    [
        ["claude", "--nonsense"],
        ["claude", "--force", "--force"],
        ["claude", "--path"],
        ["claude", "--path", "-x"],
        ["claude", "--force=1"],
        ["claude", "--ide", "emacs"],
        ["claude", "--", "x"],
        ["--help"],
    ],
)
def test_whatever_is_in_doubt_is_for_typer(words: list[str]) -> None:
    assert plain_arguments(init, words) is None


def test_a_command_that_speaks_typers_own_words_is_for_typer() -> None:
    def command(name: Annotated[str, typer.Argument()]) -> None: ...
    def bare(name: str) -> None: ...

    assert plain_arguments(command, ["x"]) is None
    assert plain_arguments(bare, ["x"]) is None


def test_a_type_that_is_not_plain_is_for_typer() -> None:
    def command(
        numbers: Annotated[list[int], Argument(help="x")], *, n: Annotated[int, Option(help="x")] = 1
    ) -> None: ...

    assert plain_arguments(command, ["1"]) is None
    assert plain_arguments(command, ["--n", "1"]) is None
