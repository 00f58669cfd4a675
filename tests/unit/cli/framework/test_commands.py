import re

from agent_sandbox.cli.framework.commands import (
    COMMANDS,
    GROUPS,
    command_path,
    in_python,
    load,
    unknown_word,
    with_default,
    without_help_word,
)
from agent_sandbox.cli.framework.main import command_for
from table_tests import each

PATHS = [(name,) for name in COMMANDS] + [(group, name) for group, (_, names) in GROUPS.items() for name in names]


@each("path", PATHS)
def test_every_command_is_a_function_and_a_module_with_its_name(path: tuple[str, ...]) -> None:
    module = load(*path)
    assert callable(getattr(module, in_python(path[-1])))
    assert getattr(module, in_python(path[-1])).__doc__


@each("path", PATHS)
def test_help_and_errors_name_arguments_as_the_reference_does(path: tuple[str, ...]) -> None:
    names = [one.metavar for one in command_for(path).params if one.param_type_name == "argument"]
    assert [name for name in names if not name or name != name.upper()] == []


def test_every_line_of_help_fits_into_eighty_columns() -> None:
    texts = [*COMMANDS.values(), *(text for group, names in GROUPS.values() for text in (group, *names.values()))]
    assert [text for text in texts if len(text) > 60 or not text.endswith(".")] == []


@each(
    ("words", "expected"),
    [
        ((), None),
        (("up",), ("up",)),
        (("up", "--help"), ("up",)),
        (("policy",), None),
        (("policy", "check", "x"), ("policy", "check")),
        (("policy", "nonsense"), None),
        (("nonsense",), None),
        (("--version", "up"), None),
    ],
)
def test_recognises_a_command_by_its_first_words(words: tuple[str, ...], expected: tuple[str, ...] | None) -> None:
    assert command_path(words) == expected


@each(
    ("words", "expected"),
    [
        ([], []),
        (["traffic"], ["traffic", "list"]),
        (["traffic", "--since", "1h"], ["traffic", "list", "--since", "1h"]),
        (["traffic", "-h"], ["traffic", "-h"]),
        (["traffic", "--help"], ["traffic", "--help"]),
        (["traffic", "top"], ["traffic", "top"]),
        (["traffic", "nonsense"], ["traffic", "nonsense"]),
        (["policy", "--json"], ["policy", "--json"]),
    ],
)
def test_a_group_may_have_a_default_command(words: list[str], expected: list[str]) -> None:
    assert with_default(words) == expected


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
    text = unknown_word([word, "x"]) or ""
    assert text.startswith(f"error: unknown command `{word}`\n  hint: agent-sandbox ")
    assert command_path([word]) is None
    named = re.findall("agent-sandbox ([a-z]+)", text)
    assert named
    assert all(name in {*COMMANDS, *GROUPS} for name in named)


@each("option", ["--base-image", "--base-image=debian:13"])
def test_an_option_that_only_init_has_names_what_to_use(option: str) -> None:
    expected = "error: `up` has no option `--base-image`\n  hint: agent-sandbox init --base-image IMAGE sets it for"
    assert (unknown_word(["up", option, "x"]) or "").startswith(expected)
    assert {unknown_word(argv) for argv in (["init", option], ["exec", option], ["up", "-q", option], [])} == {None}
