"""placeholders.sh: what the proxy wrote is exported, and what is set already is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent_sandbox.proxy.secrets.placeholder import write_environment

if TYPE_CHECKING:
    from bash_harness import Shell


@pytest.mark.parametrize(("before", "after"), [("", "sk-1"), ("export A_KEY=own;", "own"), ("export A_KEY=;", "sk-1")])
def test_placeholders_are_exported_except_those_that_are_set(shell: Shell, before: str, after: str) -> None:
    file = shell.home / "placeholders.sh"
    write_environment(file, {"A_KEY": "sk-1"})
    done = shell("placeholders", f"{before} placeholders={file}; export_placeholders; printenv A_KEY")
    assert done.stdout == f"{after}\n"


def test_without_a_file_there_are_none_and_nothing_fails(shell: Shell) -> None:
    done = shell("placeholders", f"placeholders={shell.home}/none; export_placeholders; echo on")
    assert done.stdout == "on\n"
