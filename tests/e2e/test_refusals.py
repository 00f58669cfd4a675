"""The firewall counts the connections that it refuses, and the agent cannot read, clear or flood the counts."""

import json
import subprocess
import sys
from typing import Any

import pytest

from agent_sandbox.features.stack.refusals import NOT_COUNTED
from engine import run
from real_stacks import STANDIN_ADDRESS, Project, Projects


def refused(project: Project) -> dict[tuple[str, str | None, int | None], int]:
    """Return the number of refusals per destination."""
    lines = project.sandbox("logs", "--firewall", "--json").stdout.splitlines()
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return {(row["protocol"], row["address"], row["port"]): row["count"] for row in rows}


def proxy_address(project: Project) -> str:
    return project.exec("sh", "-c", "echo ${AGENT_SANDBOX_PROXY%:*}").stdout.strip()


@pytest.fixture(scope="module")
def stack(projects: Projects) -> Project:
    project = projects.make("fresh", "claude")
    project.sandbox("up")
    return project


@pytest.fixture
def fresh(stack: Project) -> Project:
    """The stack with a new firewall, so without any counted refusal."""
    if refused(stack):
        stack.compose("up", "--detach", "--force-recreate", "--wait", "firewall", "agent")
    return stack


def test_denials_of_the_agent_while_verify_is_stopped_count_as_the_agents(fresh: Project) -> None:
    """First, because it counts all denials since the stack was made."""
    fresh.allow("allowed.test")
    stop = "until pkill -STOP -f '[p]robe.py'; do sleep 0.01; done"
    waiting = subprocess.Popen(("docker", "compose", "exec", "-T", "agent", "sh", "-c", stop), cwd=fresh.path)
    verify = (sys.executable, "-P", "-m", "agent_sandbox", "verify", "--full")
    verifying = subprocess.Popen(verify, cwd=fresh.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    waiting.wait(30)
    try:
        # The probe has the agent's user but another group: the agent can neither trace it nor take its sockets.
        seen = fresh.exec("sh", "-c", "cat /proc/$(pgrep -f '[p]robe.py' | head -1)/environ", check=False)
        assert (seen.returncode, seen.stdout) == (1, "")
        assert fresh.curl("http://denied.test/")[0] == 403
        assert fresh.curl("http://denied.test/", "--local-port", "61000-61999", "--connect-timeout", "2")[0] == 0
    finally:
        fresh.exec("pkill", "-CONT", "-f", "[p]robe.py", check=False)
    out, _ = verifying.communicate(timeout=60)
    assert out.splitlines()[-1].endswith(" none got out")
    found = json.loads(fresh.sandbox("status", "--json").stdout)
    assert [line["host"] for line in found["denials"]] == ["denied.test"]
    assert found["requests"]["denied"] == 1
    assert found["requests"]["starts"] > 40


TRIES = """
import errno, socket, sys
ECHO = bytes((8, 0, 247, 255, 0, 0, 0, 0))
def attempt(kind, protocol, address, port, data=b"x"):
    try:
        with socket.socket(socket.AF_INET, kind, protocol) as talk:
            talk.settimeout(2)
            talk.connect((address, port))
            talk.send(data)
            return "went out"
    except OSError as error:
        return errno.errorcode[error.errno]
address, proxy = sys.argv[1:]
print(
    attempt(socket.SOCK_STREAM, 0, address, 22), attempt(socket.SOCK_STREAM, 0, address, 22),
    attempt(socket.SOCK_STREAM, 0, proxy, 22), attempt(socket.SOCK_DGRAM, 0, address, 53),
    attempt(socket.SOCK_DGRAM, socket.IPPROTO_ICMP, address, 0, ECHO),
    attempt(socket.SOCK_RAW, socket.IPPROTO_ICMP, address, 0, ECHO),
    attempt(socket.SOCK_STREAM, 0, "127.0.0.11", 53), attempt(socket.SOCK_STREAM, 0, "127.0.0.1", 9),
)
"""


def test_each_refused_destination_is_counted_and_nothing_else(fresh: Project) -> None:
    assert refused(fresh) == {}  # the start checks are not counted
    proxy = proxy_address(fresh)
    said = fresh.exec("python3", "-c", TRIES, STANDIN_ADDRESS, proxy).stdout.split()
    assert said == ["ECONNREFUSED"] * 3 + ["EPERM"] * 3 + ["ECONNREFUSED"] * 2
    fresh.curl("http://denied.test/")
    fresh.sandbox("verify", "--full")
    expected = {
        ("tcp", STANDIN_ADDRESS, 22): 2,
        ("tcp", proxy, 22): 1,
        ("udp", STANDIN_ADDRESS, 53): 1,
        ("icmp", STANDIN_ADDRESS, None): 1,
        ("tcp", "127.0.0.11", 53): 1,
    }
    assert refused(fresh) == expected
    lines = fresh.sandbox("status").stdout.splitlines()
    assert "refused  6 by the firewall in the last day: agent-sandbox logs --firewall" in lines
    assert json.loads(fresh.sandbox("status", "--json").stdout)["refusals"]["total"] == 6
    run("docker", "restart", "--time", "1", fresh.containers()["agent"]["Id"])
    fresh.sandbox("up")
    assert refused(fresh).items() >= {("udp", STANDIN_ADDRESS, 53): 1}.items()


# Ways to read or clear the counts: nft, our own program, and the kernel's netlink interface.
READERS = (
    ("nft", "list", "ruleset"),
    ("nft", "flush", "ruleset"),
    ("nft", "delete", "table", "inet", "agent-sandbox"),
    ("nft", "flush", "set", "inet", "agent-sandbox", "places"),
    ("/usr/local/lib/agent-sandbox/refusals",),
    (
        "python3",
        "-c",
        "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12).bind((0, 1 << 6)); print('bound')",
    ),
)


@pytest.mark.parametrize("user", ["dev", "root"])
def test_agent_can_neither_read_nor_clear_the_refusal_counts(claude: Project, user: str) -> None:
    claude.exec("bash", "-c", f"exec 3<>/dev/tcp/{STANDIN_ADDRESS}/22", check=False)
    before = refused(claude)
    for argv in READERS:
        done = claude.exec(*argv, user=user, check=False)
        assert (done.returncode != 0 or not done.stdout, STANDIN_ADDRESS in done.stdout) == (True, False), argv
    assert before == refused(claude) != {}


FLOOD = """
import socket, sys, time
started = time.monotonic()
for port in range(1, 10_001):
    with socket.socket() as talk:
        talk.connect_ex((sys.argv[1], port))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as talk:
    for number in range(10_000):
        try:
            talk.sendto(b"x", (f"198.18.{number >> 8}.{number & 255}", 53))
        except PermissionError:
            pass
print(time.monotonic() - started)
"""


def test_flood_of_refusals_is_counted_in_few_rows_and_keeps_earlier_counts(fresh: Project) -> None:
    fresh.exec("bash", "-c", f"exec 3<>/dev/tcp/{STANDIN_ADDRESS}/22", check=False)
    spent = float(fresh.exec("python3", "-c", FLOOD, "203.0.113.9").stdout)
    found = refused(fresh)
    assert spent < 20
    assert len(found) <= 3 * 256
    assert sum(found.values()) == 20_001
    assert found["tcp", STANDIN_ADDRESS, 22] == 1  # the earlier refusal is kept
    assert found["tcp", "203.0.113.9", None] > 9_000
    assert found["udp", None, None] > 9_000
    assert len(fresh.sandbox("status").stdout.splitlines()) < 20
    assert fresh.sandbox("verify").stdout.splitlines()[-1].endswith(" none got out")


def test_firewall_works_and_commands_say_so_when_refusals_cannot_be_counted(stack: Project) -> None:
    override = stack.path.parent / "uncounted.json"
    broken = {"services": {"firewall": {"volumes": ["/bin/false:/usr/sbin/nft:ro", "/bin/false:/usr/bin/python3:ro"]}}}
    override.write_text(json.dumps(broken))
    files = ("-f", ".devcontainer/docker-compose.yml", "-f", str(stack.override), "-f", str(override))
    stack.compose(*files, "up", "--detach", "--wait")
    assert stack.sandbox("verify", "--full").stdout.splitlines()[-1].endswith(" none got out")
    said = f"refused  {NOT_COUNTED}"
    assert stack.sandbox("status").stdout.splitlines()[-1] == said
    doctor = stack.sandbox("doctor", check=False).stdout
    assert "warn  firewall    what the firewall refuses is not counted" in doctor
    log = stack.compose("logs", "firewall").stdout
    assert "agent-sandbox: what the firewall refuses is not counted: nft could not load the sets" in log
    assert "agent-sandbox: refused connections to other networks are not counted" in log
    # `verify` cannot prove which denials are its own here, so all are counted.
    assert json.loads(stack.sandbox("status", "--json").stdout)["requests"]["denied"] > 40
