"""Tools that ignore the proxy variables: they reach allowed hosts by name, and nothing else."""

import json
from collections.abc import Iterator

import pytest

from real_stacks import STANDIN_ADDRESS, Project

UNSET = tuple(
    word
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NODE_USE_ENV_PROXY", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS")
    for word in ("-u", name, "-u", name.lower())
)
FETCH = {
    "curl": ("curl", "-sS", "--max-time", "60"),
    "curl with HTTP/1.1": ("curl", "--http1.1", "-sS", "--max-time", "60"),
    "Python": ("python3", "-c", "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=60).read())"),
    "Node": ("node", "-e", "fetch(process.argv[1]).then(r => r.text()).then(console.log)"),
    "Node, of whoever": (
        *("env", "NODE_TLS_REJECT_UNAUTHORIZED=0", "node", "-e"),
        "fetch(process.argv[1]).then(r => r.text()).then(console.log)",
    ),
}


@pytest.fixture(scope="module")
def open_project(claude: Project) -> Iterator[Project]:
    policy = claude.policy.read_text()
    claude.allow("allowed.test")
    claude.sandbox("proxy", "reload")
    yield claude
    claude.write_policy(policy)
    claude.sandbox("proxy", "reload")


def unproxied(project: Project, *command: str) -> tuple[int, str]:
    """Run a command without proxy variables."""
    done = project.exec("env", *UNSET, "NO_PROXY=*", "no_proxy=*", *command, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("scheme", ["https", "http"])
@pytest.mark.parametrize("client", FETCH)
def test_clients_that_ignore_the_proxy_variables_reach_allowed_hosts(
    open_project: Project, client: str, scheme: str
) -> None:
    path = f"/{client.replace(' ', '-').replace('/', '-')}-{scheme}"
    code, said = unproxied(open_project, *FETCH[client], f"{scheme}://allowed.test{path}")
    assert code == 0, said
    assert path in [request["path"] for request in open_project.internet.requests("allowed.test")]
    line = next(line for line in open_project.traffic() if line["path"] == path)
    assert (line["decision"], line["host"]) == ("allow", "allowed.test")


@pytest.mark.parametrize("client", FETCH)
def test_dns_denies_other_names_to_clients_that_ignore_the_proxy_variables(open_project: Project, client: str) -> None:
    before = len(open_project.internet.requests("denied.test"))
    code, _ = unproxied(open_project, *FETCH[client], "https://denied.test/")
    assert code != 0
    assert len(open_project.internet.requests("denied.test")) == before
    asked = [line for line in open_project.traffic() if line["event"] == "dns" and line["host"] == "denied.test"]
    assert asked
    assert {line["decision"] for line in asked} == {"deny"}


def test_refuses_http3_at_once(open_project: Project) -> None:
    assert "HTTP3" in open_project.exec("curl", "--version").stdout
    timed = ("-w", "%{time_total}\n", "--max-time", "60")
    code, said = unproxied(open_project, "curl", "--http3-only", "-sS", *timed, "https://allowed.test/")
    assert code != 0
    assert float(said.split()[0]) < 2, said


def test_refuses_connections_to_an_allowed_name_at_another_address(open_project: Project) -> None:
    code, _ = unproxied(
        open_project, "curl", "-sS", "--max-time", "5", "--connect-to", f"::{STANDIN_ADDRESS}:", "https://allowed.test/"
    )
    assert code == 7


def test_a_request_for_a_denied_name_at_the_proxys_address_gets_the_reason(open_project: Project) -> None:
    resolver = open_project.exec("cat", "/etc/resolv.conf").stdout
    proxy = resolver.split()[1]
    code, said = unproxied(
        open_project, "curl", "-sS", "--resolve", f"denied.test:443:{proxy}", "https://denied.test/secret"
    )
    assert code == 0
    assert "no rule allows host denied.test" in said
    assert resolver == f"nameserver {proxy}\noptions timeout:2 attempts:2\n"


def test_agent_sandbox_internal_shows_what_is_allowed_with_and_without_a_proxy(open_project: Project) -> None:
    url = "http://agent-sandbox.internal/"
    code, said = unproxied(open_project, "curl", "-sS", url)
    assert code == 0
    assert "\nAllowed:\n" in said
    assert "  any method allowed.test\n" in said
    assert open_project.exec("curl", "-sS", url).stdout.splitlines()[0] == said.splitlines()[0]
    open_project.exec("curl", "-sS", "https://denied.test/page", check=False)
    found = json.loads(open_project.exec("curl", "-sS", f"{url}status.json").stdout)
    assert found["denials"][0]["reason"] == "no rule allows host denied.test"
    assert found["denials"][0]["to_allow"].startswith("run `agent-sandbox policy allow 'GET https://denied.test/page'`")


def test_the_agent_cannot_change_resolv_conf(open_project: Project) -> None:
    done = open_project.exec("sh", "-c", "echo nameserver 198.51.100.130 > /etc/resolv.conf", check=False)
    assert done.returncode != 0
    assert "Permission denied" in done.stderr


@pytest.mark.parametrize("kind", ["DGRAM", "STREAM"])
@pytest.mark.parametrize("user", [None, "root"])
@pytest.mark.parametrize("server", [pytest.param(STANDIN_ADDRESS, id="stand-in"), "127.0.0.11"])
def test_other_name_servers_are_refused_at_once(
    open_project: Project, server: str, user: str | None, kind: str
) -> None:
    ask = (
        "import socket, sys; s = socket.socket(socket.AF_INET, getattr(socket, f'SOCK_{sys.argv[2]}')); "
        "s.settimeout(3); s.connect((sys.argv[1], 53)); s.send(b'x' * 30); s.recv(9)"
    )
    done = open_project.exec("python3", "-c", ask, server, kind, user=user, check=False)
    assert done.stderr.splitlines()[-1] in {
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "OSError: [Errno 101] Network is unreachable",
        "PermissionError: [Errno 1] Operation not permitted",  # the rule refuses it before a packet is made
    }
