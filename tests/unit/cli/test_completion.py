import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import agent_sandbox
from agent_sandbox.cli.completion import SCRIPTS, Shell, completions
from run_cli import Ask
from typed_shell import TypedShell


@pytest.mark.parametrize("shell", Shell)
def test_prints_the_completion_script_of_each_shell(shell: Shell, ask: Ask) -> None:
    answer = ask("completion", shell.value)
    assert (answer.code, answer.out, answer.err) == (0, f"{SCRIPTS[shell]}\n", "")


def test_an_unknown_shell_is_a_usage_error(ask: Ask) -> None:
    answer = ask("completion", "csh")
    assert answer.code == 2
    assert answer.err.endswith("Error: Invalid value for 'SHELL': 'csh' is not one of bash, zsh, fish\n")


def test_completes_the_names_of_the_shells() -> None:
    assert completions() == ("bash", "zsh", "fish")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment with the command on PATH and without user settings."""
    program = tmp_path / "agent-sandbox"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m agent_sandbox "$@"\n')
    program.chmod(0o755)
    return {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(agent_sandbox.__file__).parents[1]),
        "HOME": str(tmp_path),
        "TERM": "dumb",
        "COLUMNS": "80",
    }


def where_installed[T](shell: Shell, rows: list[T]) -> list[T]:
    """Return the rows, or none if the machine lacks the shell: pytest then skips the test."""
    return rows if shutil.which(shell.value) else []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("agent-sandbox ini", ["init"]),
        ("agent-sandbox policy e", ["explain"]),
        ("agent-sandbox policy services show gith", ["github"]),
        ("agent-sandbox init --ide j", ["jetbrains"]),
        ("agent-sandbox init --ide = j", ["jetbrains"]),
        ("agent-sandbox run clau", ["claude"]),
        ("agent-sandbox status --color n", ["never"]),
    ],
)
def test_a_real_bash_completes(environment: dict[str, str], line: str, expected: list[str]) -> None:
    words = line.split()
    script = f"""
        {SCRIPTS[Shell.BASH]}
        COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}
        _agent_sandbox
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    where_installed(
        Shell.FISH,
        [
            ("agent-sandbox ini", "init"),
            ("agent-sandbox policy explain DEL", "DELETE"),
            ("agent-sandbox run clau", "claude"),
            ("agent-sandbox init --ide=jet", "--ide=jetbrains"),
            ("agent-sandbox policy check policy-f", "policy-file.yaml"),
        ],
    ),
)
def test_a_real_fish_completes_words_and_files(
    environment: dict[str, str], tmp_path: Path, line: str, expected: str
) -> None:
    (tmp_path / "policy-file.yaml").touch()
    script = f"{SCRIPTS[Shell.FISH]}\ncomplete --do-complete '{line}'"
    command = ["fish", "--no-config", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    assert [row.split("\t")[0] for row in done.stdout.splitlines()] == [expected]


@pytest.mark.parametrize(
    ("typed", "expected"),
    where_installed(
        Shell.ZSH,
        [
            ("agent-sandbox ini", "agent-sandbox init "),
            ("agent-sandbox ", "-- Check this machine and this project."),
            ("agent-sandbox policy services show gith", "agent-sandbox policy services show github "),
            ("agent-sandbox policy explain DEL", "agent-sandbox policy explain DELETE "),
            ("agent-sandbox init --ide jet", "agent-sandbox init --ide jetbrains "),
            ("agent-sandbox init --dry", "agent-sandbox init --dry-run "),
            ("agent-sandbox init --ide=jet", "agent-sandbox init --ide=jetbrains "),
            ("agent-sandbox run clau", "agent-sandbox run claude "),
        ],
    ),
)
def test_a_real_zsh_completes(environment: dict[str, str], tmp_path: Path, typed: str, expected: str) -> None:
    (tmp_path / "completion.zsh").write_text(SCRIPTS[Shell.ZSH])
    shell = TypedShell(["zsh", "-f", "-i"], environment | {"PS1": "%% "}, tmp_path)
    try:
        ready = "autoload -U compinit; compinit -D -u; source ./completion.zsh; print ready-$((1))\n"
        shell.type(ready, until="ready-1")
        shell.type(f"{typed}\t", until=expected)
    finally:
        shell.close()
