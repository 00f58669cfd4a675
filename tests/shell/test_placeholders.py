"""placeholders.sh: exports the placeholders of the proxy and keeps variables that are already set."""

import pytest

from agent_sandbox.proxy.secrets.placeholder import write_environment
from bash_harness import Shell


@pytest.mark.parametrize(("before", "after"), [("", "sk-1"), ("export A_KEY=own;", "own"), ("export A_KEY=;", "sk-1")])
def test_exports_placeholders_for_variables_that_are_unset_or_empty(shell: Shell, before: str, after: str) -> None:
    file = shell.home / "placeholders.sh"
    write_environment(file, {"A_KEY": "sk-1"})
    done = shell("placeholders", f"{before} placeholders={file}; export_placeholders; printenv A_KEY")
    assert done.stdout == f"{after}\n"


def test_exports_nothing_without_a_file(shell: Shell) -> None:
    done = shell("placeholders", f"placeholders={shell.home}/none; export_placeholders; echo on")
    assert done.stdout == "on\n"
