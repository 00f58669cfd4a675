import subprocess
import sys
from pathlib import Path

import pytest

from agent_sandbox.cli.completion import SCRIPTS, Shell, completions
from run_cli import Ask


@pytest.mark.parametrize("shell", Shell)
def test_the_script_is_data(shell: Shell, ask: Ask) -> None:
    answer = ask("completion", shell.value)
    assert (answer.code, answer.out, answer.err) == (0, f"{SCRIPTS[shell]}\n", "")


def test_an_unknown_shell_is_a_usage_error(ask: Ask) -> None:
    answer = ask("completion", "csh")
    assert answer.code == 2
    assert answer.err.endswith("Error: Invalid value for 'SHELL': 'csh' is not one of bash, zsh, fish\n")


def test_the_shells_themselves_are_completed() -> None:
    assert completions() == ("bash", "zsh", "fish")


@pytest.mark.parametrize(
    ("line", "expected"), [("agent-sandbox ini", ["init"]), ("agent-sandbox policy e", ["explain"])]
)
def test_a_real_bash_completes(tmp_path: Path, line: str, expected: list[str]) -> None:
    program = tmp_path / "agent-sandbox"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m agent_sandbox "$@"\n')
    program.chmod(0o755)
    words = line.split()
    script = f"""
        PATH={tmp_path}:$PATH
        {SCRIPTS[Shell.BASH]}
        COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}
        _agent_sandbox
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected
