"""workspace.sh: a workspace that the agent cannot write is said so; a protected path become a link is the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

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


def protected(shell: Shell, paths: str, *mounted: str) -> subprocess.CompletedProcess[str]:
    mountinfo = shell.home / "mountinfo"
    mountinfo.write_text("".join(f"1 2 254:0 /p{path} {path} ro - ext4 /dev/a rw\n" for path in mounted))
    return shell(
        "messages workspace",
        "check_protected",
        check=False,
        AGENT_SANDBOX_PROTECTED=paths,
        AGENT_SANDBOX_MOUNTINFO=str(mountinfo),
    )


def test_what_is_protected_is_mounted_in_its_place(shell: Shell) -> None:
    done = protected(shell, ".env .git/config", "/workspace", "/workspace/.env", "/workspace/.git/config")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_mount_that_a_link_has_led_elsewhere_ends_the_start(shell: Shell) -> None:
    done = protected(shell, ".env .git/config", "/workspace", "/workspace/.env", "/home/me/.ssh/id")
    assert done.returncode == 78
    assert done.stderr == (
        "agent-sandbox: .git/config is a link, or below one, and no longer the project's own; "
        "look at it on the host, remove it, then agent-sandbox init again and docker compose up -d\n"
    )
