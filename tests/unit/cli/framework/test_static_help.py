import re
from collections.abc import Callable

import pytest

from agent_sandbox.cli.framework.commands import COMMANDS, GROUPS, command_path
from agent_sandbox.cli.framework.main import run
from agent_sandbox.cli.framework.static_help import (
    answer,
    complete,
    group_help,
    root_help,
    usage,
    without_help_word,
)
from table_tests import each


@pytest.fixture
def typers_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return what typer prints for a command line, on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def ask(*argv: str) -> str:
        with pytest.raises(SystemExit):
            run(argv)
        return capsys.readouterr().out

    return ask


@each("path", [(), *((group,) for group in GROUPS)])
@each("option", ["--help", "-h"])
def test_the_static_help_equals_typers_help(path: tuple[str, ...], option: str, typers_own: Callable[..., str]) -> None:
    assert f"{answer((*path, option))}\n" == typers_own(*path, option)


@each(
    ("argv", "expected"),
    [
        (["help"], ["--help"]),
        (["help", "policy"], ["policy", "--help"]),
        (["help", "policy", "check"], ["policy", "check", "--help"]),
        (["policy", "help"], ["policy", "help"]),
        (["init", "help"], ["init", "help"]),
        ([], []),
    ],
)
def test_help_before_a_command_is_its_help_option(argv: list[str], expected: list[str]) -> None:
    assert without_help_word(argv) == expected


@each("word", ["attach", "ps", "restart", "start", "stop"])
def test_a_command_of_another_program_names_ours(word: str) -> None:
    text = usage([word, "x"]) or ""
    assert text.startswith(f"error: unknown command `{word}`\n  hint: agent-sandbox ")
    assert command_path([word]) is None
    named = re.findall("agent-sandbox ([a-z]+)", text)
    assert named
    assert all(name in {*COMMANDS, *GROUPS} for name in named)


@each("option", ["--base-image", "--base-image=debian:13"])
def test_an_option_that_only_init_has_names_what_to_use(option: str) -> None:
    expected = "error: `up` has no option `--base-image`\n  hint: agent-sandbox init --base-image IMAGE sets it for"
    assert (usage(["up", option, "x"]) or "").startswith(expected)
    assert usage(["init", option]) is usage(["exec", option]) is usage(["up", "--quiet", option]) is None


@each("argv", [(), ("init",), ("init", "--help"), ("--version", "x"), ("policy",), ("nonsense",)])
def test_leaves_everything_else_to_typer(argv: tuple[str, ...]) -> None:
    assert answer(argv) is None


@each(
    ("words", "names"),
    [
        (["in"], ["init"]),
        (["p"], ["ports", "prune", "policy", "project", "proxy"]),
        (["proxy", ""], ["run", "reload", "restart", "logs"]),
        (["policy", "ch"], ["check"]),
        (["--v"], ["--version"]),
        (["-"], ["--version", "--color", "--help"]),
        (["--color", ""], ["auto", "always", "never"]),
        (["status", "--color", "n"], ["never"]),
        (["--color", "never", "ini"], ["init"]),
        (["--color=never", "policy", "ch"], ["check"]),
        (["zzz"], []),
    ],
)
def test_names_are_completed(words: list[str], names: list[str]) -> None:
    text = complete(words)
    assert text is not None
    assert [line.split("\t")[0] for line in text.splitlines()] == names


@each("words", [[], ["init", ""], ["init", "--"], ["policy", "--"], ["policy", "check", ""]])
def test_leaves_options_and_arguments_of_a_command_to_typer(words: list[str]) -> None:
    assert complete(words) is None


def test_a_candidate_comes_with_its_help() -> None:
    assert answer(["__complete", "dow"]) == "down\tStop the stack; keep its state and history."


def test_prints_the_help_without_a_command() -> None:
    assert [usage(argv) for argv in ([], ["proxy"], ["up"], ["policy", "check"])] == [
        root_help(),
        group_help("proxy"),
        None,
        None,
    ]
