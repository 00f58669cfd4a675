"""workspace.sh: a workspace that the agent cannot write is said so, and is no failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shells import Shell


def test_a_workspace_of_its_own_is_nothing_to_talk_about(shell: Shell) -> None:
    assert shell("messages workspace", "check_workspace", AGENT_SANDBOX_WORKSPACE=str(shell.home)).stderr == ""


def test_a_workspace_of_somebody_elses_is_named_with_both_numbers(shell: Shell) -> None:
    script = "stat() { echo 501; }; id() { echo 1000; }; check_workspace"
    done = shell("messages workspace", script, AGENT_SANDBOX_WORKSPACE="/proc/sys")
    assert done.stderr == (
        "agent-sandbox: /proc/sys belongs to user 501 and the agent is user 1000: it cannot write there; "
        "run agent-sandbox init again, then docker compose up -d\n"
    )
