"""Our own commands on a real engine: what they pass on, what they say when something is in the way."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from typing import TYPE_CHECKING

import pytest

from engine import agent_sandbox, run
from real_stacks import make_network, remove_network, trust

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from real_stacks import Project, Projects

SANDBOX = (sys.executable, "-P", "-m", "agent_sandbox")


@pytest.fixture(scope="module")
def down(projects: Projects) -> Project:
    """A project that has been initialised and not started."""
    return projects.make("not started", "claude")


@pytest.mark.parametrize("code", [0, 1, 7, 130])
def test_exec_passes_the_exit_code_on(claude: Project, code: int) -> None:
    assert claude.sandbox("exec", "--", "sh", "-c", f"exit {code}", check=False).returncode == code


def test_exec_hands_options_on_and_keeps_output_clean(claude: Project) -> None:
    done = claude.sandbox("exec", "printf", "%s|", "--json", "-f", "a b")
    assert (done.stdout, done.stderr) == ("--json|-f|a b|", "")


def test_exec_is_dev_without_any_capability(claude: Project) -> None:
    done = claude.sandbox("exec", "sh", "-c", "id -u; grep CapBnd /proc/self/status")
    assert done.stdout.split() == ["1000", "CapBnd:", "0000000000000000"]


def test_run_is_the_agents_own_command_with_its_exit_code(claude: Project) -> None:
    done = claude.sandbox("run", "--", "--version")
    assert done.stdout.split()[0][0].isdigit()
    assert claude.sandbox("run", "--", "--no-such-option", check=False).returncode == 1


def test_run_needs_no_other_command_first(projects: Projects) -> None:
    fresh = projects.folder / "fresh"
    fresh.mkdir()
    os.chown(fresh, 1000, 1000)
    try:
        done = agent_sandbox("run", "claude", "--", "--version", cwd=fresh)
        assert done.stdout.endswith(" (Claude Code)\n")
        assert done.stderr.startswith("written    .devcontainer/docker-compose.yml\n")
        assert agent_sandbox("run", "--quiet", "--", "--version", cwd=fresh).stderr == ""
    finally:
        agent_sandbox("destroy", "--yes", cwd=fresh)


def test_one_run_in_a_sandbox_of_its_own_leaves_a_summary_and_nothing_else(projects: Projects) -> None:
    fresh = projects.folder / "once"
    fresh.mkdir()
    agent_sandbox("init", "claude", cwd=fresh)
    (fresh / ".devcontainer" / "sandbox.yaml").write_text("version: 1\nsetup: setup.sh\n")
    (fresh / "setup.sh").write_text("#!/bin/sh\ncurl -s https://denied.test/\necho all: >Makefile\n")
    (fresh / "setup.sh").chmod(0o755)
    for place in (fresh, *fresh.rglob("*")):
        os.chown(place, 1000, 1000)
    once = ("run", "--rm", "--json", "--quiet")
    refused = agent_sandbox(*once, "--", "--version", cwd=fresh, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    fingerprint = refused.stderr.split()[-1]
    done = agent_sandbox(*once, "--yes", fingerprint, "--", "--no-such-option", cwd=fresh, check=False)
    found = json.loads(done.stdout)
    assert (done.returncode, found["exit_code"], found["result"]) == (1, 1, "")
    assert found["requests"] == {"allowed": 0, "denied": 1}
    assert [one["request"] for one in found["denials"]] == ["GET https://denied.test/"]
    assert [one["path"] for one in found["review"]["changes"]] == ["Makefile"]
    left = agent_sandbox("destroy", "--yes", cwd=fresh)
    assert "nothing to remove: " in left.stderr
    again = agent_sandbox(*once, "--", "--version", cwd=fresh)
    assert "(Claude Code)" in json.loads(again.stdout)["result"]


def test_shell_has_a_terminal_of_the_same_size_when_its_caller_has_one(claude: Project) -> None:
    controller, shell = _on_a_terminal(claude, "shell")
    os.write(controller, b"tty; stty size; echo $TERM/$COLORTERM; exit 5\n")
    said = b"".join(iter(lambda: _read(controller), b""))
    os.close(controller)
    seen = [words in said for words in (b"/dev/pts/", b"31 97", b"xterm-256color/truecolor")]
    assert (shell.wait(timeout=20), *seen) == (5, True, True, True)


def _on_a_terminal(project: Project, *words: str) -> tuple[int, subprocess.Popen[bytes]]:
    """Start a command whose controlling terminal is a new one, and return the terminal's other end."""
    controller, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (31, 97))
    outside = os.environ | {"TERM": "no-such-terminal", "COLORTERM": "truecolor"}
    login = ("setsid", "--ctty", "--wait", *SANDBOX, *words)
    started = subprocess.Popen(login, cwd=project.path, env=outside, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    return controller, started


def test_signals_reach_what_exec_runs_which_decides_on_the_exit_code(claude: Project) -> None:
    script = "echo ready; trap 'exit 9' TERM; while :; do sleep 0.05; done"
    for command, number, code in ((("sh", "-c", script), signal.SIGTERM, 9), (("yes",), signal.SIGINT, 130)):
        argv = (*SANDBOX, "exec", "--", *command)
        with subprocess.Popen(argv, cwd=claude.path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as started:
            assert started.stdout
            started.stdout.read(4)
            started.send_signal(number)
            started.stdout.read()
            assert started.wait(timeout=20) == code


def test_a_terminal_that_closes_ends_what_exec_runs(claude: Project) -> None:
    controller, started = _on_a_terminal(claude, "exec", "--", "sh", "-c", "echo rea''dy; exec sleep 4321")
    while b"ready" not in _read(controller):
        pass
    os.close(controller)
    started.wait(timeout=20)
    assert claude.exec("pgrep", "-f", "sleep 4321", check=False).stdout == ""


def test_a_command_whose_output_is_read_no_further_ends_with_the_code_of_a_broken_pipe(claude: Project) -> None:
    pipe = f"{shlex.join(SANDBOX)} exec -- yes | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = run("bash", "-c", pipe, cwd=claude.path)
    assert (done.stdout, done.stderr) == ("y\n141\n", "")
    assert claude.exec("pgrep", "-x", "yes", check=False).stdout == ""


PORT = 4000
# Sends a gigabyte before it reads, and ends its own half first.
LISTENER = f"""
import socket
with socket.create_server(("127.0.0.1", {PORT})) as server:
    print("ready", flush=True)
    connection, _ = server.accept()
    for _ in range(1 << 10):
        connection.sendall(bytes(1 << 20))
    connection.shutdown(socket.SHUT_WR)
    print(sum(map(len, iter(lambda: connection.recv(1 << 20), b""))))
"""

HOLDER = f"""
import socket
with socket.create_server(("127.0.0.1", {PORT})) as server:
    print("ready", flush=True)
    connection, _ = server.accept()
    connection.recv(1)
    connection.sendall(b"held")
    connection.recv(1)
"""


@contextlib.contextmanager
def listening(project: Project, program: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program inside that prints a line when it listens; yield its process."""
    argv = (*SANDBOX, "exec", "--", "python3", "-I", "-c", program)
    with subprocess.Popen(argv, cwd=project.path, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout
        assert listener.stdout.readline() == "ready\n"
        yield listener


@contextlib.contextmanager
def forwarded(project: Project) -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    """Relay the port; yield the process, and a connection to the port."""
    argv = (*SANDBOX, "ports", f"0:{PORT}")
    with subprocess.Popen(argv, cwd=project.path, stderr=subprocess.PIPE, text=True) as relay:
        assert relay.stderr
        here = int(relay.stderr.readline().split()[0].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", here), timeout=20) as connection:
            yield relay, connection
        relay.send_signal(signal.SIGINT)


def test_a_listener_that_sends_a_gigabyte_before_it_reads_gets_all_that_was_sent_to_it(claude: Project) -> None:
    garbage = os.urandom(3 << 20)
    with listening(claude, LISTENER) as listener, forwarded(claude) as (_, connection):
        sending = threading.Thread(target=connection.sendall, args=(garbage,))
        sending.start()
        assert sum(map(len, iter(lambda: connection.recv(1 << 20), b""))) == 1 << 30
        sending.join()
        connection.shutdown(socket.SHUT_WR)
        assert listener.stdout
        assert listener.stdout.read() == f"{len(garbage)}\n"


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1024)
    except OSError:  # Linux says so when the other end has closed
        return b""


def test_up_again_changes_nothing(claude: Project) -> None:
    before = {service: one["Id"] for service, one in claude.containers().items()}
    (said,) = claude.sandbox("up").stderr.splitlines()
    assert said.endswith(" is already up; start the agent with agent-sandbox run, or a shell with agent-sandbox shell")
    assert {service: one["Id"] for service, one in claude.containers().items()} == before


def test_status_knows_when_the_policy_on_disk_is_another(claude: Project) -> None:
    good = claude.policy.read_text()
    claude.sandbox("proxy", "reload")
    assert json.loads(claude.sandbox("status", "--json").stdout)["policy"]["state"] == "current"
    claude.allow("edited.test")
    assert json.loads(claude.sandbox("status", "--json").stdout)["policy"]["state"] == "edited"
    claude.write_policy(good)


def test_ls_lists_the_stack_with_what_it_uses(claude: Project) -> None:
    name = json.loads(claude.sandbox("status", "--json").stdout)["project"]
    listed = {one["name"]: one for one in json.loads(claude.sandbox("ls", "--json").stdout)["stacks"]}
    found = listed[name]
    assert (found["root"], found["state"], found["notes"]) == (str(claude.path), "running", [])
    assert found["memory"] > 1 << 20
    assert found["disk"] > 1 << 10
    assert found["denied"] is not None
    from_elsewhere = agent_sandbox("status", "--json", "--path", name, cwd=claude.path.parent)
    assert json.loads(from_elsewhere.stdout)["project"] == name


def test_cp_copies_both_ways_and_follows_no_link_of_the_agent(claude: Project, tmp_path: Path) -> None:
    claude.exec("sh", "-c", "mkdir -p /tmp/out/.git && echo made >/tmp/out/f && ln -s /proc/self/environ /tmp/out/link")
    done = claude.sandbox("cp", "box:/tmp/out", str(tmp_path), check=False)
    assert (done.returncode, done.stdout, done.stderr.splitlines()[1:]) == (
        1,
        "",
        ["not copied: link: symbolic links are not copied", f"copied 1 file (5 B) to {tmp_path}"],
    )
    assert (tmp_path / "out" / "f").read_text() == "made\n"
    # What the agent left in the project for its owner to name.
    claude.exec("ln", "-sfn", "/etc", "/workspace/leads-out")
    done = claude.sandbox("cp", "leads-out/hostname", "box:/tmp/", check=False)
    assert done.stderr == "error: leads-out: is a symbolic link, and links are not followed; it leads to /etc\n"
    claude.exec("rm", "/workspace/leads-out")
    claude.sandbox("cp", str(tmp_path / "out"), "box:/tmp/back")
    assert claude.exec("sh", "-c", "stat -c %U /tmp/back/f").stdout == "dev\n"
    claude.exec("sh", "-c", "rm -r /tmp/out /tmp/back")


SESSION = {
    "type": "assistant",
    "timestamp": "2026-11-21T10:00:00.000Z",
    "sessionId": "aaaaaaaa-0000-0000-0000-000000000001",
    "requestId": "req_1",
    "message": {
        "id": "msg_1",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "usage": {"input_tokens": 1000, "output_tokens": 500, "cache_read_input_tokens": 3000},
    },
}
# A database that was closed: to open it, SQLite writes beside it.
DATABASE = """
import contextlib, json, pathlib, sqlite3
folder = pathlib.Path.home() / ".local/share/opencode"
folder.mkdir(parents=True, exist_ok=True)
data = {"id": "1", "sessionID": "1", "role": "assistant", "modelID": "m", "providerID": "p", "cost": 0.5}
data |= {"time": {"created": 1763719200000}, "tokens": {"input": 7, "output": 8, "cache": {"read": 0, "write": 0}}}
with contextlib.closing(sqlite3.connect(folder / "opencode.db")) as database, database:
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE session (id TEXT, directory TEXT)")
    database.execute("CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT)")
    database.execute("INSERT INTO message VALUES ('1', '1', 1763719200000, ?)", [json.dumps(data)])
"""


def test_usage_counts_the_tokens_of_all_agents_and_leaves_their_state_alone(claude: Project) -> None:
    folder = "/home/dev/.claude/projects/of-a-test"
    line = json.dumps(SESSION, separators=(",", ":"))  # as the agent writes it
    claude.exec("sh", "-c", f"mkdir -p {folder}; printf '%s' '{line}' >{folder}/a.jsonl")
    claude.exec("python3", "-I", "-c", DATABASE)
    before = claude.exec("sh", "-c", "ls -lR ~/.claude ~/.local/share").stdout
    found = json.loads(claude.sandbox("usage", "--json", "--quiet").stdout)
    name = json.loads(claude.sandbox("status", "--json").stdout)["project"]
    (stack,) = (one for one in found["stacks"] if one["name"] == name)
    tokens = {one["agent"]: (one["input"], one["output"], one["cache_read"]) for one in stack["agents"]}
    assert tokens == {"claude": (1000, 500, 3000), "opencode": (7, 8, 0)}
    assert all(one["cost"] > 0 for one in stack["agents"])
    assert claude.exec("sh", "-c", "ls -lR ~/.claude ~/.local/share").stdout == before
    claude.exec("sh", "-c", f"rm -r {folder} ~/.local/share/opencode")


def test_doctor_has_nothing_to_mend_here(claude: Project) -> None:
    report = json.loads(claude.sandbox("doctor", "--json").stdout)
    assert [check for check in report["checks"] if check["status"] == "fail"] == []
    assert {"engine", "compose", "buildx", "policy", "images", "owner", "subnet"} <= {
        check["name"] for check in report["checks"]
    }


def test_proxy_logs_show_decisions_and_not_the_stacks_own_questions(claude: Project) -> None:
    claude.curl("http://denied.test/for-the-log")
    time.sleep(0.2)  # the log is written in batches
    said = claude.sandbox("proxy", "logs", "--denied").stdout
    assert "GET http://denied.test/for-the-log" in said
    assert "agent-sandbox-health" not in said


def test_a_proxy_that_is_restarted_decides_again_when_the_command_returns(claude: Project) -> None:
    claude.sandbox("proxy", "restart")
    assert claude.curl("http://denied.test/")[0] == 403


def test_a_proxy_that_was_started_with_a_broken_policy_is_made_anew_by_up(claude: Project) -> None:
    good = claude.policy.read_text()
    claude.policy.write_text("version: 7\n")
    claude.compose("restart", "proxy")
    claude.wait_until_it_answers("https://api.anthropic.com/", 403)
    claude.policy.write_text(good)
    deadline = time.monotonic() + 30
    while claude.containers()["proxy"]["State"]["Health"]["Status"] != "unhealthy":
        assert time.monotonic() < deadline
        time.sleep(0.5)
    before = claude.containers()
    assert " is up; " in claude.sandbox("up").stderr
    after = claude.containers()
    changed = {service for service, one in after.items() if one["Id"] != before[service]["Id"]}
    assert changed == {"proxy"}
    assert claude.curl("https://api.anthropic.com/")[0] == 200


def test_what_needs_a_running_stack_says_how_to_start_one(down: Project) -> None:
    for command in (("shell",), ("exec", "true"), ("logs",), ("proxy", "reload"), ("proxy", "logs")):
        done = down.sandbox(*command, check=False)
        assert (done.returncode, done.stderr.splitlines()[1:]) == (1, ["  hint: agent-sandbox up"])


@pytest.fixture
def taken(down: Project) -> Iterator[str]:
    """Take the subnet of a stack that is not up."""
    config = json.loads(down.compose("config", "--format=json").stdout)
    subnet = config["networks"]["sandbox"]["ipam"]["config"][0]["subnet"]
    name = "agent-sandbox-test-taken"
    make_network(name, f"--subnet={subnet}")
    yield name
    remove_network(name)


def test_a_subnet_that_is_taken_is_named_by_up_and_by_doctor(down: Project, taken: str) -> None:
    done = down.sandbox("up", check=False)
    assert done.returncode == 1
    assert "the stack's subnet is in use by another Docker network" in done.stderr
    report = json.loads(down.sandbox("doctor", "--json", check=False).stdout)
    assert f"docker network {taken}" in next(check["what"] for check in report["checks"] if check["name"] == "subnet")
    down.sandbox("destroy", "--yes")


def test_a_service_that_can_not_start_gives_its_reason(down: Project) -> None:
    compose = down.path / ".devcontainer" / "docker-compose.yml"
    before = compose.read_text()
    compose.write_text(before.replace("/usr/local/lib/agent-sandbox/firewall", "/usr/local/lib/nowhere"))
    trust(down.path)
    done = down.sandbox("up", check=False)
    compose.write_text(before)
    trust(down.path)
    down.sandbox("destroy", "--yes")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-3].startswith("error: firewall: exited with code ")
    assert "/usr/local/lib/nowhere" in done.stderr


def test_ctrl_c_in_a_build_ends_it_and_tags_nothing(down: Project) -> None:
    names = [f"--filter=reference=agent-sandbox/{name}" for name in ("base", "claude", "proxy")]
    images = ("docker", "image", "ls", "--quiet", "--no-trunc", *names)  # another worker may build others
    before = {*run(*images).stdout.split()}
    assert before
    build = subprocess.Popen(
        [*SANDBOX, "build", "--no-cache"], cwd=down.path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert build.stderr is not None
    for line in build.stderr:
        if "apt-get" in line:
            break
    build.send_signal(signal.SIGINT)
    said = build.stderr.read()
    build.stderr.close()
    assert build.wait(timeout=30) == 130
    assert said.splitlines()[-1].startswith("interrupted: ")
    assert {*run(*images).stdout.split()} == before


# An image that is built on one of ours has our label; a volume can have any.
FORGED = "FROM scratch\nLABEL agent-sandbox.digest=forged\n"


def test_prune_finds_nothing_of_others_and_nothing_that_is_used(claude: Project) -> None:
    name = json.loads(claude.sandbox("status", "--json").stdout)["project"]
    volumes = {"agent-sandbox_forged": "com.docker.compose.project=agent-sandbox", "forged": f"agent-sandbox={name}"}
    run("docker", "build", "--tag", "agent-sandbox-test-forged", "-", piped=FORGED)
    run("docker", "tag", "agent-sandbox-test-forged", "agent-sandbox/test-forged:1")
    for volume, label in volumes.items():
        run("docker", "volume", "create", f"--label={label}", volume)
    try:
        found = json.loads(claude.sandbox("prune", "--dry-run", "--json").stdout)
    finally:
        run("docker", "volume", "rm", *volumes)
        run("docker", "image", "rm", "agent-sandbox-test-forged", "agent-sandbox/test-forged:1")
    assert name not in {one["name"] for one in found["stacks"]}
    assert "agent-sandbox" not in {one["name"] for one in found["stacks"]}
    names = {one["name"] for one in found["images"]}
    used = {container["Config"]["Image"] for container in claude.containers().values()}
    assert "agent-sandbox/test-forged:1" in names  # our name and our label
    assert not names & {"agent-sandbox-test-forged:latest", *used}


def test_destroy_leaves_nothing_on_the_engine_and_every_file_and_ends_relayed_ports(down: Project) -> None:
    files = sorted(path.name for path in (down.path / ".devcontainer").iterdir())
    down.sandbox("up")
    name = json.loads(down.sandbox("status", "--json").stdout)["project"]
    # What an agent that was here before has left: no file names it any more.
    run("docker", "volume", "create", f"--label=com.docker.compose.project={name}", f"{name}_state-former")
    with listening(down, HOLDER), forwarded(down) as (relay, connection):
        connection.sendall(b"x")
        assert connection.recv(4) == b"held"
        down.sandbox("destroy", "--yes")
        assert relay.stderr
        assert relay.stderr.read() == "the sandbox ended the relay: agent-sandbox status\n"
        assert relay.wait(20) == 1
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    for kind in ("container", "network", "volume"):
        everything = ("--all",) if kind == "container" else ()
        listed = run("docker", kind, "ls", *everything, "--quiet", f"--filter=label=com.docker.compose.project={name}")
        assert listed.stdout == ""
    assert sorted(path.name for path in (down.path / ".devcontainer").iterdir()) == files
