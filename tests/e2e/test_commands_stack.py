"""Our commands on a real Docker engine: what they pass on, and their errors when something is wrong."""

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
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import agent_sandbox, run
from real_stacks import Project, Projects, make_network, remove_network, trust

SANDBOX = (sys.executable, "-P", "-m", "agent_sandbox")


@pytest.fixture(scope="module")
def down(projects: Projects) -> Project:
    """A project that has been initialised and not started."""
    return projects.make("not started", "claude")


@pytest.mark.parametrize("code", [0, 1, 7, 130])
def test_exec_passes_the_exit_code_on(claude: Project, code: int) -> None:
    assert claude.sandbox("exec", "--", "sh", "-c", f"exit {code}", check=False).returncode == code


def test_exec_passes_options_on_and_prints_nothing_itself(claude: Project) -> None:
    done = claude.sandbox("exec", "printf", "%s|", "--json", "-f", "a b")
    assert (done.stdout, done.stderr) == ("--json|-f|a b|", "")


def test_exec_runs_as_dev_without_capabilities(claude: Project) -> None:
    done = claude.sandbox("exec", "sh", "-c", "id -u; grep CapBnd /proc/self/status")
    assert done.stdout.split() == ["1000", "CapBnd:", "0000000000000000"]


def test_run_starts_the_agents_command_and_returns_its_exit_code(claude: Project) -> None:
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


def test_run_rm_prints_a_summary_and_leaves_no_stack(projects: Projects) -> None:
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
    said = json.loads(refused.stdout)
    assert (refused.returncode, said["exit_code"], "not trusted yet" in said["problems"][0]["what"]) == (1, None, True)
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


def test_shell_has_a_terminal_of_the_callers_size(claude: Project) -> None:
    controller, shell = _on_a_terminal(claude, "shell")
    os.write(controller, b"tty; stty size; echo $TERM/$COLORTERM; exit 5\n")
    said = b"".join(iter(lambda: _read(controller), b""))
    os.close(controller)
    seen = [words in said for words in (b"/dev/pts/", b"31 97", b"xterm-256color/truecolor")]
    assert (shell.wait(timeout=60), *seen) == (5, True, True, True)


def test_a_program_without_a_terminal_asks_on_that_of_its_session_to_open_a_page(claude: Project) -> None:
    page = ("setsid", "--wait", "xdg-open", "https://auth.example.test/x?redirect_uri=http://localhost:1455")
    controller, asking = _on_a_terminal(claude, "exec", "--", *page)
    said = b"".join(iter(lambda: _read(controller), b""))
    os.close(controller)
    assert asking.wait(timeout=60) == 0
    assert b"wanted to open a page of auth.example.test, and ended before you could answer" in b" ".join(said.split())
    outside = claude.sandbox("exec", "--", "xdg-open", "https://auth.example.test/", check=False)
    assert (outside.returncode, "nothing here can open https://auth.example.test/" in outside.stderr) == (3, True)


def _on_a_terminal(project: Project, *words: str) -> tuple[int, subprocess.Popen[bytes]]:
    """Start a command at a new terminal; return the terminal's controlling end and the process."""
    controller, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (31, 97))
    outside = os.environ | {"TERM": "no-such-terminal", "COLORTERM": "truecolor"}
    login = ("setsid", "--ctty", "--wait", *SANDBOX, *words)
    started = subprocess.Popen(login, cwd=project.path, env=outside, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    return controller, started


def test_exec_forwards_signals_and_returns_the_exit_code_of_its_command(claude: Project) -> None:
    script = "echo ready; trap 'exit 9' TERM; while :; do sleep 0.05; done"
    for command, number, code in ((("sh", "-c", script), signal.SIGTERM, 9), (("yes",), signal.SIGINT, 130)):
        argv = (*SANDBOX, "exec", "--", *command)
        with subprocess.Popen(argv, cwd=claude.path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as started:
            assert started.stdout
            started.stdout.read(4)
            started.send_signal(number)
            started.stdout.read()
            assert started.wait(timeout=60) == code


def test_closing_the_terminal_ends_the_command_that_exec_runs(claude: Project) -> None:
    controller, started = _on_a_terminal(claude, "exec", "--", "sh", "-c", "echo rea''dy; exec sleep 4321")
    while b"ready" not in _read(controller):
        pass
    os.close(controller)
    started.wait(timeout=60)
    assert claude.exec("pgrep", "-f", "sleep 4321", check=False).stdout == ""


def test_exec_ends_its_command_and_exits_with_141_when_its_output_pipe_closes(claude: Project) -> None:
    pipe = f"{shlex.join(SANDBOX)} exec -- yes | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = run("bash", "-c", pipe, cwd=claude.path)
    assert (done.stdout, done.stderr) == ("y\n141\n", "")
    assert claude.exec("pgrep", "-x", "yes", check=False).stdout == ""


PORT = 4000
# Sends a gigabyte before it reads, and closes its sending half first.
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
    """Run a program in the sandbox, wait until it listens, and yield its process."""
    argv = (*SANDBOX, "exec", "--", "python3", "-I", "-c", program)
    with subprocess.Popen(argv, cwd=project.path, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout
        assert listener.stdout.readline() == "ready\n"
        yield listener


@contextlib.contextmanager
def forwarded(project: Project) -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    """Relay the port; yield the relay's process and a connection to the port."""
    argv = (*SANDBOX, "ports", f"0:{PORT}")
    with subprocess.Popen(argv, cwd=project.path, stderr=subprocess.PIPE, text=True) as relay:
        assert relay.stderr
        here = int(relay.stderr.readline().split()[0].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", here), timeout=60) as connection:
            yield relay, connection
        relay.send_signal(signal.SIGINT)


def test_ports_relays_everything_to_a_listener_that_sends_a_gigabyte_first(claude: Project) -> None:
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
    except OSError:  # Linux raises this when the other end has closed
        return b""


def test_up_again_changes_nothing(claude: Project) -> None:
    before = {service: one["Id"] for service, one in claude.containers().items()}
    said = claude.sandbox("up").stderr.splitlines()
    last = " is already up; start the agent with agent-sandbox run, or a shell with agent-sandbox shell"
    # A step that takes a second is shown.
    others = [line for line in said if not line.startswith(("starting the stack ...", "  done in "))]
    assert [line[line.find(" is ") :] for line in others] == [last]
    assert {service: one["Id"] for service, one in claude.containers().items()} == before


def test_status_reports_a_policy_that_was_edited_since_it_was_loaded(claude: Project) -> None:
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
    # A symbolic link that the agent leaves in the project for the user to copy.
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
# A closed database. SQLite writes files next to it when it opens it.
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


def test_doctor_reports_no_failure_for_a_healthy_stack(claude: Project) -> None:
    report = json.loads(claude.sandbox("doctor", "--json").stdout)
    assert [check for check in report["checks"] if check["status"] == "fail"] == []
    assert {"engine", "compose", "buildx", "policy", "images", "owner", "subnet"} <= {
        check["name"] for check in report["checks"]
    }


@pytest.mark.nightly
def test_doctor_downloads_packages_in_a_build(claude: Project) -> None:
    report = json.loads(claude.sandbox("doctor", "--build", "--json").stdout)
    assert next(one["status"] for one in report["checks"] if one["name"] == "builds") == "ok"


def test_proxy_logs_show_decisions_without_health_checks(claude: Project) -> None:
    claude.curl("http://denied.test/for-the-log")
    time.sleep(0.2)  # the log is written in batches
    said = claude.sandbox("proxy", "logs", "--denied").stdout
    assert "GET http://denied.test/for-the-log" in said
    assert "agent-sandbox-health" not in said


def test_proxy_restart_returns_when_the_proxy_decides_again(claude: Project) -> None:
    claude.sandbox("proxy", "restart")
    assert claude.curl("http://denied.test/")[0] == 403


def test_up_recreates_a_proxy_that_started_with_an_invalid_policy(claude: Project) -> None:
    good = claude.policy.read_text()
    claude.policy.write_text("version: 7\n")
    claude.compose("restart", "proxy")
    claude.wait_until_it_answers("https://api.anthropic.com/", 403)
    claude.policy.write_text(good)
    deadline = time.monotonic() + 180
    while claude.containers()["proxy"]["State"]["Health"]["Status"] != "unhealthy":
        assert time.monotonic() < deadline
        time.sleep(0.5)
    before = claude.containers()
    assert " is up; " in claude.sandbox("up").stderr
    after = claude.containers()
    changed = {service for service, one in after.items() if one["Id"] != before[service]["Id"]}
    assert changed == {"proxy"}
    assert claude.curl("https://api.anthropic.com/")[0] == 200


def test_commands_that_need_a_running_stack_print_how_to_start_it(down: Project) -> None:
    for command in (("shell",), ("exec", "true"), ("logs", "--raw"), ("proxy", "reload"), ("proxy", "logs")):
        done = down.sandbox(*command, check=False)
        assert (done.returncode, done.stderr.splitlines()[1:]) == (1, ["  hint: agent-sandbox up"])


@pytest.fixture
def taken(down: Project) -> Iterator[str]:
    """Use the subnet of a stack that is not up for another network."""
    config = json.loads(down.compose("config", "--format=json").stdout)
    subnet = config["networks"]["sandbox"]["ipam"]["config"][0]["subnet"]
    name = "agent-sandbox-test-taken"
    make_network(name, f"--subnet={subnet}")
    yield name
    remove_network(name)


def test_up_and_doctor_report_a_subnet_that_is_in_use(down: Project, taken: str) -> None:
    done = down.sandbox("up", check=False)
    assert done.returncode == 1
    assert "the stack's subnet is in use by another Docker network" in done.stderr
    report = json.loads(down.sandbox("doctor", "--json", check=False).stdout)
    assert f"docker network {taken}" in next(check["what"] for check in report["checks"] if check["name"] == "subnet")
    down.sandbox("destroy", "--yes")


def test_up_prints_why_a_container_cannot_start(down: Project) -> None:
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


def test_ctrl_c_ends_a_build_and_tags_no_image(down: Project) -> None:
    names = [f"--filter=reference=agent-sandbox/{name}" for name in ("base", "claude", "proxy")]
    images = ("docker", "image", "ls", "--quiet", "--no-trunc", *names)  # another test worker can build others
    before = {*run(*images).stdout.split()}
    assert before
    build = subprocess.Popen(
        [*SANDBOX, "build", "--no-cache"], cwd=down.path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert build.stderr is not None
    for line in build.stderr:
        if "installing Debian packages" in line:
            break
    build.send_signal(signal.SIGINT)
    said = build.stderr.read()
    build.stderr.close()
    assert build.wait(timeout=30) == 130
    assert said.splitlines()[-1].startswith("interrupted: ")
    assert {*run(*images).stdout.split()} == before


# An image that is built on one of ours inherits our label; a volume can have any label.
FORGED = "FROM scratch\nLABEL agent-sandbox.digest=forged\n"


def test_prune_lists_nothing_of_other_software_and_nothing_in_use(claude: Project) -> None:
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


def test_destroy_removes_all_docker_objects_keeps_all_files_and_ends_port_relays(down: Project) -> None:
    files = sorted(path.name for path in (down.path / ".devcontainer").iterdir())
    down.sandbox("up")
    name = json.loads(down.sandbox("status", "--json").stdout)["project"]
    # The volume of a former agent, which no file names any more.
    run("docker", "volume", "create", f"--label=com.docker.compose.project={name}", f"{name}_state-former")
    with listening(down, HOLDER), forwarded(down) as (relay, connection):
        connection.sendall(b"x")
        assert connection.recv(4) == b"held"
        down.sandbox("destroy", "--yes")
        assert relay.stderr
        assert relay.stderr.read() == "the sandbox ended the relay: agent-sandbox status\n"
        assert relay.wait(60) == 1
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    for kind in ("container", "network", "volume"):
        everything = ("--all",) if kind == "container" else ()
        listed = run("docker", kind, "ls", *everything, "--quiet", f"--filter=label=com.docker.compose.project={name}")
        assert listed.stdout == ""
    assert sorted(path.name for path in (down.path / ".devcontainer").iterdir()) == files
