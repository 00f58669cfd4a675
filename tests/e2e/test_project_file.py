"""The sandbox is built as the project file says, and nothing that the file adds weakens its protections."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bash_harness import ROOT
from engine import run
from prepared import build_project
from real_stacks import STANDIN_ADDRESS, Project, Projects, trust
from registry import Registry

# Each line of the Dockerfile adds a file that would raise privileges, or replaces a program of the sandbox.
SANDBOX = ".devcontainer/sandbox.yaml"
FILES = {
    SANDBOX: """\
version: 1
packages: [golang-go, postgresql-client]
tools: {pip: [uv]}
dockerfile: Dockerfile
setup: scripts/setup.sh
mask: [.env, .env.local, config/keys]
mounts: [{path: ../shared-lib}]
environment: {DATABASE_URL: "postgres://db/$app"}
mcp:
  mine: {command: python3, args: [-I, server.py]}
  far: {url: "https://denied.test/mcp"}
beside:
  db:
    build: {dockerfile: db.Dockerfile}
    volumes: ["data:/var/lib/postgresql"]
    expose: [5432]
    healthcheck: {test: pg_isready --host localhost}
  web:
    build: {dockerfile: db.Dockerfile}
    command: [python3, -I, -m, http.server, --directory, /usr/share/doc, "7000"]
    expose: [7000]
    links: [db]
  waits:
    image: REGISTRY_IMAGE
    shm_size: 128m
""",
    # It also listens on a port that it does not expose.
    ".devcontainer/db.Dockerfile": """\
FROM debian:trixie-slim
RUN apt-get update && apt-get install -y --no-install-recommends postgresql python3
USER postgres
ENV PATH=$PATH:/usr/lib/postgresql/17/bin
RUN initdb --username=app --auth=trust -D /var/lib/postgresql/db \\
    && echo 'host all all all trust' >>/var/lib/postgresql/db/pg_hba.conf
CMD ["sh", "-c", "python3 -I -m http.server --directory /usr/share/doc 6379 & \\
    exec postgres -D /var/lib/postgresql/db -c listen_addresses='*'"]
""",
    "server.py": (ROOT / "tests" / "lab" / "mcp_server.py").read_text(),
    "scripts/setup.sh": 'id -un >>ran; curl -so /dev/null -w "%{http_code}\\n" http://denied.test/ >>ran\n',
    ".env": "STRIPE_KEY=hidden\n",
    ".env.local": "hidden\n",
    "config/keys/key": "hidden\n",
    "../shared-lib/lib.txt": "shared\n",
    ".devcontainer/Dockerfile": """\
FROM ${AGENT_SANDBOX_BASE}
USER root
RUN cp /bin/cat /usr/local/bin/lender && chmod 6755 /usr/local/bin/lender
RUN python3 -c "import os; os.setxattr('/usr/local/bin/lender', 'security.capability', \\
    bytes.fromhex('01000002' + '0020000000000000' * 2))"
RUN openssl req -x509 -newkey ed25519 -nodes -subj /CN=planted -keyout /dev/null \\
    -out /usr/local/share/ca-certificates/planted.crt && update-ca-certificates
RUN cd /usr/local/lib/agent-sandbox && echo planted | tee healthy enter >firewall
RUN printf '#!/bin/sh\\necho made here\\n' >/usr/local/bin/my-tool && chmod 755 /usr/local/bin/my-tool
""",
    "main.go": 'package main\n\nfunc main() { println("built inside") }\n',
}
LENDERS = """
import os, stat
for folder, _, names in os.walk("/usr"):
    for path in (os.path.join(folder, name) for name in names):
        mode = os.lstat(path).st_mode
        if stat.S_ISREG(mode) and (mode & 0o6000 or "security.capability" in os.listxattr(path)):
            print(path)
"""


def prepare() -> None:
    """Build the images, without the service whose image a registry has."""
    build_project("claude", files={**FILES, SANDBOX: FILES[SANDBOX].partition("  waits:\n")[0]})


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    """A registry on loopback that serves the image of one of the services."""
    with Registry("waits") as one:
        yield one
        run("docker", "image", "rm", "--force", one.image, check=False)


@pytest.fixture(scope="module")
def box(projects: Projects, registry: Registry) -> Iterator[Project]:
    def fill(project: Path) -> None:
        for name, text in FILES.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text.replace("REGISTRY_IMAGE", registry.image))

    project = projects.make("made", "claude", fill=fill)
    trust(project.path)
    project.sandbox("up")
    yield project
    made = project.containers()["agent"]["Config"]["Image"]
    project.sandbox("destroy", "--yes")
    names = ("agent-sandbox/own", "agent-sandbox/beside")
    own = [found for name in names for found in run("docker", "image", "ls", "--quiet", name).stdout.split()]
    run("docker", "image", "rm", "--force", made, *own, check=False)


def test_installs_the_packages_and_tools_and_runs_the_dockerfile(box: Project) -> None:
    said = box.exec("sh", "-ec", "go run main.go 2>&1; uv --version; my-tool; claude --version").stdout.splitlines()
    assert (said[0], said[1].split()[0], said[2]) == ("built inside", "uv", "made here")
    assert box.curl("http://denied.test/")[0] == 403


def test_pins_the_image_of_a_service_to_the_digest_of_its_first_pull(box: Project, registry: Registry) -> None:
    inspected = ("docker", "image", "inspect", "--format", "{{index .RepoDigests 0}}", registry.image)
    digest = registry.tag
    assert run(*inspected).stdout.strip().endswith(f"@{digest}")
    assert box.containers()["waits"]["HostConfig"]["ShmSize"] == 128 << 20
    registry.publish("another image with the same name")
    run("docker", "pull", "--quiet", registry.image)
    refused = box.sandbox("up", check=False)
    said = f"error: waits: {registry.image} is not the image that ran before: its digest was {digest}\n"
    assert (refused.returncode, said in refused.stderr) == (1, True)
    box.compose("rm", "--stop", "--force", "waits")
    run("docker", "image", "rm", "--force", registry.image, f"{registry.image.removesuffix(':1')}@{digest}")
    box.sandbox("up")
    assert run(*inspected).stdout.strip().endswith(f"@{digest}")


def test_the_setup_script_runs_once_as_dev_under_the_policy(box: Project) -> None:
    box.sandbox("up")
    assert (box.path / "ran").read_text() == "dev\n403\n"


def test_a_dockerfile_adds_no_setuid_file_or_ca_and_replaces_no_sandbox_program(box: Project) -> None:
    assert box.exec("python3", "-c", LENDERS, user="root").stdout == ""
    images = {name: one["Config"]["Image"].split(":")[0] for name, one in box.containers().items()}
    assert images == {
        "proxy": "agent-sandbox/proxy",
        "firewall": "agent-sandbox/base",
        "agent": "agent-sandbox/project",
        **dict.fromkeys(("firewall.db", "firewall.web", "firewall.waits"), "agent-sandbox/base"),
        **dict.fromkeys(("db", "web"), "agent-sandbox/beside"),
        "waits": "127.0.0.1",
    }
    assert box.exec("grep", "-r", "planted", "/usr/local/lib/agent-sandbox", check=False).stdout == ""
    planted = "sed -n 2p /usr/local/share/ca-certificates/planted.crt | grep -F -f - /etc/ssl/certs/*.crt"
    assert box.exec("sh", "-ec", planted, check=False).stdout == ""


# The agent tries each of these. None must show or change the masked files on the host machine.
LIFT = """
exec 2>&1
cat .env .env.local config/keys/key; rm -f .env; mv .env x; echo mine >.env
umount config/keys; rm -f .env.local; mv .env.local x; rmdir config/keys; mv config/keys config/other; mv config other
mkdir config; ln -s config/keys link; cat link/key /proc/1/root/workspace/config/keys/key /proc/self/cwd/.env.local
echo mine >config/keys/mine; echo mine >.env.local
"""


def test_the_agent_cannot_read_or_change_masked_paths(box: Project) -> None:
    said = box.exec("sh", "-c", f"{LIFT}find . -name key -o -name other; true").stdout
    assert "hidden" not in said.replace("config/keys", "")
    assert (box.path / ".env.local").read_text() == "hidden\n"
    assert [path.name for path in (box.path / "config" / "keys").iterdir()] == ["key"]
    assert box.exec("cat", "config/keys/mine").stdout == "mine\n"


@pytest.mark.parametrize("path", [".env", ".env.local"])
def test_a_masked_file_that_the_host_machine_replaces_is_hidden_again(box: Project, path: str) -> None:
    agent, text = box.containers()["agent"]["Id"], (box.path / path).read_text()
    (box.path / "new").write_text(text)
    (box.path / "new").rename(box.path / path)
    done = box.sandbox("exec", "cat", path)
    assert (done.stdout, box.containers()["agent"]["Id"]) == ("", agent)
    said = "replaced on the host machine, so the agent could read it; it is hidden again, without a restart"
    assert done.stderr == f"{path}: {said}\n"
    assert (box.path / path).read_text() == text


def test_a_mount_is_read_only_and_a_variable_is_set(box: Project) -> None:
    said = box.exec("sh", "-c", "cat ../shared-lib/lib.txt; touch /shared-lib/x 2>&1; echo $DATABASE_URL").stdout
    assert said.splitlines() == [
        "shared",
        "touch: cannot touch '/shared-lib/x': Read-only file system",
        "postgres://db/$app",
    ]


SETTINGS = "/home/dev/.claude/.claude.json"


def test_an_agent_starts_the_mcp_servers_and_status_shows_how_to_allow_a_denied_server(box: Project) -> None:
    lines = box.exec("claude", "mcp", "list").stdout.splitlines()
    connected = {line.partition(":")[0] for line in lines if line.endswith("Connected")}
    assert connected == {"mine"}
    assert [line for line in lines if line.startswith("far: https://denied.test/mcp")] != []
    allowing = "agent-sandbox policy allow 'GET,POST,DELETE https://denied.test/mcp'"
    assert allowing in box.sandbox("status").stdout
    bare = box.exec("env", "-i", "PATH=/usr/bin:/bin", "/usr/local/lib/agent-sandbox/mcp-server", "env").stdout
    assert "\nHTTPS_PROXY=http://" in bare


# The agent controls every file that a start of its container reads or writes.
PLANT = """
cd ~/.claude
echo '{"mcpServers": {"mine": {"command": "planted"}}}' >/workspace/host.json
rm -f .claude.json .agent-sandbox-mcp.json
ln -s /workspace/host.json .claude.json
mkfifo .agent-sandbox-mcp.json
"""


def test_a_symlink_in_place_of_the_mcp_settings_changes_no_project_file(box: Project) -> None:
    box.exec("sh", "-c", PLANT)
    before = {path: path.read_bytes() for path in box.path.rglob("*") if path.is_file()}
    box.compose("restart", "--timeout=0", "agent")
    box.compose("up", "--detach", "--wait", "agent")
    assert {path: path.read_bytes() for path in box.path.rglob("*") if path.is_file()} == before
    said = box.compose("logs", "--no-log-prefix", "--tail=20", "agent").stdout
    assert f"the project's MCP servers are not in {SETTINGS}: Too many levels of symbolic links" in said
    box.exec("sh", "-c", "rm ~/.claude/.claude.json ~/.claude/.agent-sandbox-mcp.json")


def test_a_database_beside_the_sandbox_is_reached_by_name_and_keeps_its_data(box: Project) -> None:
    psql = "psql --host db --username app --tuples-only --no-align"
    box.exec("sh", "-ec", f"createdb --host db --username app shop; {psql} shop -c 'create table t as select 42 as x'")
    box.compose("rm", "--stop", "--force", "db")
    assert " is up; " in box.sandbox("up").stderr
    assert box.exec("sh", "-ec", f"{psql} shop -c 'table t'").stdout == "42\n"
    assert box.exec("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://web:7000/").stdout == "200"


def test_the_agent_reaches_only_the_exposed_ports_of_services(box: Project) -> None:
    assert tried(box, "agent", "db:5432 db:6379 db:22 web:7000 web:5432 web:22") == {
        "db:5432": "connected",
        "db:6379": "refused",
        "db:22": "refused",
        "web:7000": "connected",
        "web:5432": "refused",
        "web:22": "refused",
    }
    box.sandbox("verify", "--full", "--capture", f"{STANDIN_ADDRESS}:22")


def test_a_service_reaches_only_the_services_it_links_to_even_as_root(box: Project) -> None:
    found = box.containers()
    networks = [one for name in ("firewall", "proxy") for one in found[name]["NetworkSettings"]["Networks"].values()]
    own = [f"{one['IPAddress']}:{port}" for one in networks for port in (8000, 8080)]
    box.compose("exec", "--detach", "agent", "timeout", "60", "python3", "-I", "-m", "http.server", "8000")
    refused = dict.fromkeys((*own, "web:7000", "localhost:22"), "refused")
    # `db` does not know the name of `web`, which links to it.
    assert tried(box, "db", " ".join(refused)) == {**refused, "web:7000": "no name"}
    reached = {**refused, "db:5432": "connected", "db:6379": "refused", "web:7000": "connected"}
    assert tried(box, "web", " ".join(reached)) == reached


def test_the_probe_finds_no_way_out_of_a_service_as_root(box: Project) -> None:
    before = len(box.internet.events())
    for service in ("db", "web"):
        groups = (word for group in ("direct", "names", "network") for word in ("--group", group))
        argv = ("python3", "-", "--full", "--json", "--capture", f"{STANDIN_ADDRESS}:22", *groups)
        said = in_service(box, service, *argv, piped=(ROOT / "images" / "agent" / "probe.py").read_text())
        found = json.loads(said)["probes"]
        # In the container of a service, the probe does not know which services it links to.
        expected = {"neighbours and the gateway"} if service == "web" else set()
        assert {one["tried"] for one in found if one["verdict"] == "LEAK"} == expected
        assert len(found) > 20
    assert box.internet.events()[before:] == []


def test_services_have_no_capabilities_and_mount_only_their_own_volumes(box: Project) -> None:
    for service in ("db", "web"):
        status = in_service(box, service, "grep", "-E", "^(Cap...|NoNewPrivs)", "/proc/self/status").split()
        assert {*status[1:10:2]} == {"0000000000000000"}
        assert status[10:] == ["NoNewPrivs:", "1"]
    mounts = {
        name: [one["Name"] for one in found["Mounts"]] for name, found in box.containers().items() if name in "db web"
    }
    name = box.containers()["db"]["Config"]["Labels"]["com.docker.compose.project"]
    assert mounts == {"db": [f"{name}_beside.db.data"], "web": []}


def test_a_service_with_flushed_firewall_rules_reaches_no_other_container(box: Project) -> None:
    flush = "iptables -P INPUT ACCEPT; iptables -P OUTPUT ACCEPT; iptables -F"
    box.compose("exec", "-T", "--user", "root", "firewall.db", "sh", "-c", flush)
    web = box.containers()["firewall.web"]["NetworkSettings"]["Networks"].values()
    agent = box.containers()["firewall"]["NetworkSettings"]["Networks"].values()
    places = " ".join(f"{one['IPAddress']}:{port}" for one in (*web, *agent) for port in (7000, 8000))
    outcomes = tried(box, "db", f"{places} {STANDIN_ADDRESS}:22")
    assert "connected" not in outcomes.values()
    box.compose("up", "--detach", "--force-recreate", "--wait", "firewall.db", "db")


def test_up_builds_only_after_an_edit_and_keeps_the_container_if_the_build_fails(box: Project) -> None:
    before = box.containers()["agent"]["Id"]
    assert "building" not in box.sandbox("up").stderr
    assert box.containers()["agent"]["Id"] == before
    file = box.path / ".devcontainer" / "sandbox.yaml"
    file.write_text(file.read_text().replace("golang-go", "no-such-package"))
    trust(box.path)
    failed = box.sandbox("up", check=False)
    assert failed.returncode == 1
    assert "`packages` could not be installed: E: Unable to locate package no-such-package" in failed.stderr
    assert box.containers()["agent"]["Id"] == before


CONNECT = """
import socket, sys
for place in sys.argv[1].split():
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 2).close()
        print(place, "connected")
    except socket.gaierror:
        print(place, "no name")
    except TimeoutError:
        print(place, "silence")
    except OSError:
        print(place, "refused")
"""


def tried(box: Project, service: str, places: str) -> dict[str, str]:
    """Connect to each place from a container, as root except in the agent container; return the outcomes."""
    argv = ("python3", "-c", CONNECT, places)
    said = box.exec(*argv).stdout if service == "agent" else in_service(box, service, *argv)
    return dict(line.split(" ", 1) for line in said.splitlines())


def in_service(box: Project, service: str, *argv: str, piped: str = "") -> str:
    identity = box.containers()[service]["Id"]
    return run("docker", "exec", "--interactive", "--user", "0:0", identity, *argv, piped=piped, check=False).stdout
