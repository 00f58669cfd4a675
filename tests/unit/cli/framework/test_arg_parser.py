import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import pytest
import typer
import typer.main
from hypothesis import example, given
from hypothesis import strategies as st

from agent_sandbox.cli.build import build
from agent_sandbox.cli.exec import exec  # noqa: A004 - the command
from agent_sandbox.cli.framework.arg_parser import plain_arguments
from agent_sandbox.cli.framework.main import CONTEXT, _guarded
from agent_sandbox.cli.framework.parameters import Argument, Option
from agent_sandbox.cli.init import init
from agent_sandbox.cli.logs import logs
from agent_sandbox.cli.policy.import_ import import_
from agent_sandbox.cli.proxy.reload import reload
from agent_sandbox.cli.run import run

called: list[dict[str, Any]] = []
COMMANDS: dict[str, Callable[..., object]] = {
    "init": init,
    "run": run,
    "exec": exec,
    "logs": logs,
    "build": build,
    "import": import_,
    "reload": reload,
}
IN_ORDER = {"exec"}


def _typers_command(name: str) -> Any:  # noqa: ANN401 - typer's own class, by version
    def recorded(**arguments: object) -> None:
        called.append(arguments)

    declared = inspect.signature(COMMANDS[name])
    vars(recorded)["__signature__"] = declared
    recorded.__annotations__ = {name: one.annotation for name, one in declared.parameters.items()}
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(context_settings={**CONTEXT, "allow_interspersed_args": name not in IN_ORDER})(_guarded(recorded))
    return typer.main.get_command(app)


TYPERS = {name: _typers_command(name) for name in COMMANDS}


def typers(name: str, words: list[str]) -> dict[str, Any] | None:
    """Return what typer calls the command with, or None where it refuses."""
    called.clear()
    try:
        TYPERS[name].main(args=words, standalone_mode=True, prog_name="x")
    except SystemExit as left:
        if left.code:
            return None
    return called[0] if called else None


def quick(name: str, words: list[str]) -> dict[str, Any] | None:
    found = plain_arguments(COMMANDS[name], words, interspersed=name not in IN_ORDER)
    if found is None:
        return None
    return {name: one.default for name, one in inspect.signature(COMMANDS[name]).parameters.items()} | found


def _words(function: Callable[..., object]) -> list[str]:
    """Return the spellings of a command's options, each alone, with a value, and in part."""
    options = [
        word
        for name, one in inspect.signature(function).parameters.items()
        for part in get_args(one.annotation)
        if isinstance(part, Option)
        for word in part.words(name)
    ]
    return [*options, *(f"{word}=1" for word in options), *(word[:-1] for word in options), *(f"{o}x" for o in options)]


OTHERS = [
    "claude",
    "x",
    "-x",
    "--",
    "-",
    "",
    "a b",
    "vscode",
    "emacs",
    "1",
    "-1",
    "0",
    "01",
    "\u0661",
    "1_0",
    "--help",
    "-h",
]
asked = st.sampled_from(sorted(COMMANDS)).flatmap(
    lambda name: st.tuples(st.just(name), st.lists(st.sampled_from([*OTHERS, *_words(COMMANDS[name])]), max_size=5))
)


@given(asked, st.sampled_from(["", "/ca.pem"]))
@example(("init", ["claude", "--path", "-x"]), "")
@example(("init", ["claude", "--path"]), "")
@example(("init", ["claude", "--name", ""]), "")
@example(("init", ["--force", "claude", "--ide", "none", "--path", "a"]), "")
@example(("init", ["claude", "--force", "--force"]), "")
@example(("init", ["claude", "--force=1"]), "")
@example(("init", ["claude", "--ide", "emacs"]), "")
@example(("run", ["claude", "--", "-p", "--", "x"]), "")
@example(("exec", ["ls", "-l", "--path", "--"]), "")
@example(("exec", ["--path", "x", "--", "-l"]), "")
@example(("logs", ["-n=1"]), "")
@example(("logs", ["-n", "01", "-f", "proxy"]), "")
@example(("build", ["claude"]), "/ca.pem")
def test_agrees_with_typer(question: tuple[str, list[str]], extra_ca: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AGENT_SANDBOX_EXTRA_CA", extra_ca)
        found = quick(*question)
        if found is not None:
            assert found == typers(*question)


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("run", ["claude", "-q", "--", "-p", "--ask"], {"arguments": ["claude", "-p", "--ask"], "quiet": True}),
        ("exec", ["ls", "-l", "--path"], {"command": ["ls", "-l", "--path"]}),
        ("exec", ["--path", "x", "--", "ls"], {"command": ["ls"], "path": Path("x")}),
        ("logs", ["proxy", "-f", "-n", "20"], {"services": ["proxy"], "follow": True, "tail": 20}),
        ("import", ["a", "b"], {"files": [Path("a"), Path("b")]}),
    ],
)
def test_the_daily_commands_need_no_typer(name: str, words: list[str], expected: dict[str, Any]) -> None:
    assert plain_arguments(COMMANDS[name], words, interspersed=name not in IN_ORDER) == expected


def test_a_variable_sets_a_missing_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_SANDBOX_EXTRA_CA", "/ca.pem")
    assert plain_arguments(build, []) == {"extra_ca": Path("/ca.pem")}
    assert plain_arguments(build, ["--extra-ca", "b"]) == {"extra_ca": Path("b")}
    monkeypatch.setenv("AGENT_SANDBOX_EXTRA_CA", "")
    assert plain_arguments(build, []) == {}


def test_leaves_commands_with_typer_types_to_typer() -> None:
    def command(name: Annotated[str, typer.Argument()]) -> None: ...
    def bare(name: str) -> None: ...

    assert plain_arguments(command, ["x"]) is None
    assert plain_arguments(bare, ["x"]) is None


def test_leaves_other_types_to_typer() -> None:
    def command(
        numbers: Annotated[list[int], Argument(help="x")], *, n: Annotated[int, Option(help="x")] = 1
    ) -> None: ...

    assert plain_arguments(command, ["1"]) is None
    assert plain_arguments(command, ["--n", "1"]) is None
