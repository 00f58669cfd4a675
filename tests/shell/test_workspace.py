"""workspace.sh: reports a workspace that the agent cannot write; a protected path behind a link stops the start."""

import subprocess

import pytest

from bash_harness import Shell


def test_prints_nothing_if_the_agent_can_write_the_workspace(shell: Shell) -> None:
    assert shell("messages workspace", "check_workspace", AGENT_SANDBOX_WORKSPACE=str(shell.home)).stderr == ""


def test_reports_a_workspace_of_another_user_with_both_uids(shell: Shell) -> None:
    script = "stat() { echo 501; }; id() { echo 1000; }; check_workspace"
    done = shell("messages workspace", script, AGENT_SANDBOX_WORKSPACE="/proc/sys")
    assert done.stderr == (
        "agent-sandbox: /proc/sys belongs to user 501 but the agent is user 1000, so it cannot write there; "
        "run agent-sandbox init again, then agent-sandbox up\n"
    )


def mounts(shell: Shell, paths: str, *mounted: str) -> Shell:
    """Return a shell with these protected paths in a container with these mounts: `ro PATH` or `rw PATH`."""
    lines = (f"1 2 254:0 /p{path} {path} {how},relatime - ext4 /dev/a rw\n" for how, _, path in map(split, mounted))
    mountinfo = shell.home / "mountinfo"
    mountinfo.write_text("".join(lines))
    return shell.within(AGENT_SANDBOX_PROTECTED=paths, AGENT_SANDBOX_MOUNTINFO=str(mountinfo))


def split(mounted: str) -> tuple[str, str, str]:
    return mounted.partition(" ")


WHOLE = ("rw /workspace", "ro /workspace/.env", "rw /workspace/.git", "ro /workspace/.git/config")
PATHS = "read .env\npinned .git\nread .git/config"


def test_accepts_protected_paths_that_are_mounted(shell: Shell) -> None:
    done = mounts(shell, PATHS, *WHOLE)("messages workspace", "lost_walls; check_protected")
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("lost", [".env", ".git", ".git/config"])
def test_lists_each_lost_mount(shell: Shell, lost: str) -> None:
    left = [mount for mount in WHOLE if not mount.endswith(f"/{lost}")]
    assert mounts(shell, PATHS, *left)("messages workspace", "lost_walls").stdout == f"{lost}\n"


def test_a_writable_mount_of_a_read_only_path_counts_as_lost(shell: Shell) -> None:
    changed = [mount.replace("ro ", "rw ") for mount in WHOLE]
    assert mounts(shell, PATHS, *changed)("messages workspace", "lost_walls").stdout == ".env\n.git/config\n"


def test_the_last_mount_of_a_path_counts(shell: Shell) -> None:
    done = mounts(shell, "read .env", "ro /workspace/.env", "rw /workspace/.env")("messages workspace", "lost_walls")
    assert done.stdout == ".env\n"


def test_paths_can_contain_spaces(shell: Shell) -> None:
    paths = "read a b/.git\nread c d"
    assert mounts(shell, paths, r"ro /workspace/a\040b/.git")("messages workspace", "lost_walls").stdout == "c d\n"


@pytest.mark.parametrize(
    ("path", "said"), [("a 1b", r"a\0401b"), (r"a\b", r"a\134b"), (r"a\040", r"a\134040"), ("end ", r"end\040")]
)
def test_finds_paths_with_characters_that_mountinfo_escapes(shell: Shell, path: str, said: str) -> None:
    done = mounts(shell, f"read {path}", f"ro /workspace/{said}")("messages workspace", "lost_walls")
    assert (done.stdout, done.stderr) == ("", "")


def test_no_mount_is_lost_without_protected_paths(shell: Shell) -> None:
    assert mounts(shell, "")("messages workspace", "lost_walls").stdout == ""


def test_a_protected_path_behind_a_link_stops_the_start(shell: Shell) -> None:
    done = mounts(shell, PATHS, *WHOLE[:3], "ro /home/me/.ssh/id")("messages workspace", "check_protected", check=False)
    assert done.returncode == 78
    assert done.stderr == (
        "agent-sandbox: .git/config is a symbolic link, or below one, so its mount protects something else; "
        "check it on the host machine and remove it; then run agent-sandbox init and agent-sandbox up\n"
    )


def test_enter_runs_a_command_if_no_mount_is_lost(shell: Shell) -> None:
    done = mounts(shell, PATHS, *WHOLE).run(shell.image / "enter", "echo", "a  b")
    assert (done.stdout, done.stderr) == ("a  b\n", "")


def test_enter_exits_with_the_commands_code_or_127_for_a_missing_command(shell: Shell) -> None:
    inside = mounts(shell, PATHS, *WHOLE)
    assert inside.run(shell.image / "enter", "sh", "-c", "exit 7", check=False).returncode == 7
    assert inside.run(shell.image / "enter", "no-such-command", check=False).returncode == 127


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ({}, "unset"),
        ({"TERM": "xterm"}, "xterm"),
        ({"TERM": "dumb"}, "dumb"),
        ({"TERM": "vt100"}, "vt100"),
        ({"TERM": "no-such-terminal"}, "xterm-256color"),
        ({"TERM": "-V"}, "xterm-256color"),
        ({"TERM": "../../etc/passwd"}, "xterm-256color"),
    ],
)
def test_enter_replaces_an_unknown_terminal_type_by_xterm_256color(
    shell: Shell, term: dict[str, str], expected: str
) -> None:
    inside = mounts(shell, PATHS, *WHOLE).within(**term)
    done = inside.run(shell.image / "enter", "sh", "-c", 'echo "${TERM-unset}"')
    assert (done.stdout, done.stderr) == (f"{expected}\n", "")


def test_enter_runs_nothing_if_a_mount_is_lost(shell: Shell) -> None:
    done = mounts(shell, PATHS, *WHOLE[:1]).run(shell.image / "enter", "echo", "ran", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "agent-sandbox: .env was replaced on the host machine, so the agent can write it now\n"
        "agent-sandbox: .git was replaced on the host machine, so the agent can write it now\n"
        "agent-sandbox: .git/config was replaced on the host machine, so the agent can write it now\n"
        "agent-sandbox: check it, then run agent-sandbox up: it recreates the agent container "
        "and protects the file again\n"
    )


def healthy(
    shell: Shell, *mounted: str, ready: str = "true", trusted: str = "true", network: str = ""
) -> subprocess.CompletedProcess[str]:
    script = f"source {shell.image}/healthy; is_ready() {{ {ready}; }}; is_trusted() {{ {trusted}; }}; {network}main"
    return mounts(shell, PATHS, *mounted).run("bash", "-c", script, check=False)


def test_an_agent_is_healthy_if_it_is_ready_and_no_mount_is_lost(shell: Shell) -> None:
    assert (healthy(shell, *WHOLE, ready="true").returncode, healthy(shell, *WHOLE, ready="false").returncode) == (0, 1)
    done = healthy(shell, *WHOLE[1:3], ready="true")
    assert (done.returncode, done.stdout) == (1, ".git/config\n")


def test_an_agent_without_a_network_or_trust_in_the_proxy_reports_why(shell: Shell) -> None:
    alone = healthy(shell, *WHOLE, network="has_network() { false; }; ")
    said = "the agent has no network: the firewall restarted without it\n"
    assert (alone.returncode, alone.stdout) == (2, said)
    strange = healthy(shell, *WHOLE, trusted="false")
    said = "the agent does not trust the proxy, whose CA changed since the agent started\n"
    assert (strange.returncode, strange.stdout) == (2, said)


def test_looks_up_paths_outside_the_workspace_by_their_absolute_path(shell: Shell) -> None:
    paths = "pinned /home/me/x/.git\nread /home/me/x/.git/config\nread /home/me/x/.git/hooks"
    mounted = ("rw /home/me/x/.git", "ro /home/me/x/.git/config", "rw /home/me/x/.git/hooks", "ro /workspace/.env")
    done = mounts(shell, paths, *mounted)("messages workspace", "lost_walls")
    assert done.stdout == "/home/me/x/.git/hooks\n"
