"""docs/cli.md is generated from the commands (`make golden` writes it again)."""

import re

import pytest

from agent_sandbox.cli.framework.commands import GROUPS
from agent_sandbox.cli.framework.main import command_for
from command_page import PAGE, PATHS, long_name, page, reference, section

SHARED = reference().partition("## Shared options\n")[2].partition("\n## ")[0]


def help_of(path: tuple[str, ...]) -> str:
    command = command_for(path)
    text: str = command.get_help(command.make_context(" ".join(path), [], resilient_parsing=True))
    return text


def options_in_help(path: tuple[str, ...]) -> set[str]:
    return set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", help_of(path), re.MULTILINE)) - {"--help"}


def options_in_section(path: tuple[str, ...]) -> set[str]:
    lines = section(path).splitlines()
    own = [name for line in lines if (name := re.match(r"- `(?:-\w, )?(--[a-z-]+).*`: \S", line))]
    shared = [line for line in lines if line.startswith("- [Shared](#shared-options): ")]
    return {name[1] for name in own} | {*re.findall(r"`(--[a-z-]+)`", "".join(shared))}


def test_each_shared_option_is_described_once() -> None:
    described = [long_name(name) for name in re.findall(r"^- `([^`]+)`: \S", SHARED, re.MULTILINE)]
    named = {name for path in PATHS for name in re.findall(r"^- \[Shared\].*", section(path), re.MULTILINE)}
    assert sorted(described) == sorted({name for line in named for name in re.findall(r"`([^`]+)`", line)})


def test_command_reference_is_up_to_date() -> None:
    assert page() == PAGE.read_text("utf-8"), "write it again: make golden"


def test_help_of_every_command_fits_into_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    texts = {path: help_of(path) for path in PATHS}
    assert {path: wide for path, text in texts.items() if (wide := [x for x in text.splitlines() if len(x) > 80])} == {}


def test_every_command_has_one_section() -> None:
    headings = re.findall(r"^##+ agent-sandbox (.+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(headings) == sorted([*(" ".join(path) for path in PATHS), *GROUPS])


def test_section_lists_every_option_that_help_prints() -> None:
    assert {path: options_in_section(path) for path in PATHS} == {path: options_in_help(path) for path in PATHS}


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("exec", "agent-sandbox exec [OPTIONS] COMMAND..."),
        ("init", "agent-sandbox init [OPTIONS] [AGENT...]"),
        ("logs", "agent-sandbox logs [OPTIONS] [SERVICE...]"),
        ("policy schema", "Print the JSON Schema"),
        ("init", "- `--ide vscode|jetbrains|none`: "),
        ("init", "- `--dry-run`: "),
        ("logs", "- `-n, --tail N`: "),
        ("logs", "- `SERVICE`: "),
    ],
)
def test_section_shows_arguments_and_options_as_typed(command: str, line: str) -> None:
    assert f"\n{line}" in section(tuple(command.split()))


@pytest.mark.parametrize(
    ("command", "option", "note"),
    [
        ("proxy run", "--policy FILE", "Required."),
        ("", "--extra-ca FILE", "Environment variable: `AGENT_SANDBOX_EXTRA_CA`."),
    ],
)
def test_section_notes_required_options_and_environment_variables(command: str, option: str, note: str) -> None:
    text = section(tuple(command.split())) if command else SHARED
    (line,) = re.findall(rf"^- `{option}`: (.*)$", text, re.MULTILINE)
    assert line.endswith(note)
