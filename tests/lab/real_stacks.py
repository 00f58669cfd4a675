"""Real stacks on a real engine, and an internet that is a container on an internal network."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from agent_sandbox.features.trust.trust_gate import checked_in_root, current_settings, remember
from agent_sandbox.project.trust_store import open_store
from certificates import make_authority
from engine import ROOT, CommandError, agent_sandbox, run

LAB = ROOT / "tests" / "lab"
# Each worker has its own stand-in for the internet, on a documentation network: what goes astray leads nowhere.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
INTERNET = f"agent-sandbox-test-internet-{WORKER}"
NETWORKS = (
    *(f"198.51.100.{start}/27" for start in (128, 160, 192, 32, 64, 96)),
    *(f"203.0.113.{start}/27" for start in (128, 160, 192, 224)),
)
PUBLIC = NETWORKS[int(WORKER.removeprefix("gw")) % len(NETWORKS)]
# Beside tests that keep all processors busy, a proxy can take longer to start than the 15 s that it has otherwise.
START_PERIOD = "45s"
STANDIN_ADDRESS = str(ip_network(PUBLIC)[2])  # the agent's network has no way there
WORK = "work.test"  # client_stand.py
HOSTS = (
    "allowed.test", "denied.test", "example.com", "github.com", "api.github.com", "api.anthropic.com",
    "api.individual.githubcopilot.com", "telemetry.individual.githubcopilot.com", "api.openai.com",
    "generativelanguage.googleapis.com", "openrouter.ai", "chatgpt.com", "models.dev", "api.factory.ai",
    "cloudcode-pa.googleapis.com", "oauth2.googleapis.com",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Internet:
    """The stand-in: a container that plays every host, on a network of its name, and the CA that only proxies trust."""

    name: str
    ca: Path

    def require_keys(self, keys: Mapping[str, str]) -> None:
        """Have these hosts answer 401 to requests without their key."""
        self.ca.with_name("keys.json").write_text(json.dumps(keys))

    def events(self) -> list[dict[str, Any]]:
        """Return all that reached it, oldest first."""
        return [json.loads(line) for line in run("docker", "logs", self.name).stdout.splitlines()]

    def requests(self, host: str) -> list[dict[str, Any]]:
        """Return the requests that reached one host."""
        return [event for event in self.events() if event["event"] == "request" and event["host"] == host]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A user's project with a rendered stack, whose egress leads to the stand-in."""

    path: Path
    internet: Internet
    override: Path = field(repr=False)

    def compose(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run plain `docker compose` in the project's directory."""
        return run("docker", "compose", *argv, cwd=self.path, check=check)

    def sandbox(self, *argv: str, check: bool = True, piped: str = "") -> subprocess.CompletedProcess[str]:
        """Run `agent-sandbox` in the project's directory."""
        return agent_sandbox(*argv, cwd=self.path, check=check, piped=piped)

    def exec(self, *argv: str, user: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in the agent's container, as `docker compose exec` does by default."""
        as_user = ("--user", user) if user else ()
        return self.compose("exec", "-T", *as_user, "agent", *argv, check=check)

    def curl(self, url: str, *options: str) -> tuple[int, str]:
        """Fetch a URL inside; return (status or 0, body)."""
        done = self.exec("curl", "-sS", "--max-time", "60", "-w", "\n%{http_code}", *options, url, check=False)
        body, _, status = done.stdout.rpartition("\n")
        return int(status or 0), body or done.stderr

    @property
    def policy(self) -> Path:
        """The file that the user edits."""
        return self.path / ".devcontainer" / "policy.yaml"

    def allow(self, *hosts: str) -> None:
        """Write a policy that allows these hosts, besides what the agent itself needs."""
        self.write_policy(f"version: 1\nservices: [claude]\ndomains: [{', '.join(hosts)}]\n")

    def write_policy(self, text: str) -> None:
        """Write the policy, and trust it."""
        self.policy.write_text(text)
        trust(self.path)

    def containers(self) -> dict[str, Any]:
        """Return `docker inspect` of each service's container."""
        ids = self.compose("ps", "--all", "--quiet").stdout.split()
        found = json.loads(run("docker", "inspect", *ids).stdout)
        return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in found}

    def traffic(self) -> list[dict[str, Any]]:
        """Return the records of the audit log."""
        lines = self.compose("exec", "-T", "proxy", "cat", "/state/log/traffic.jsonl").stdout.splitlines()
        return [json.loads(line) for line in lines]

    def wait_until_it_answers(self, url: str, status: int, *, seconds: float = 60) -> str:
        """Fetch until the wanted status comes, and return the body."""
        deadline = time.monotonic() + seconds
        while True:
            got, body = self.curl(url)
            if got == status:
                return body
            if time.monotonic() > deadline:
                raise CommandError(f"{url} answered {got} after {seconds} s, not {status}:\n{body}")
            time.sleep(0.2)


def start_internet(folder: Path, *, image: str, name: str = INTERNET, public: str = PUBLIC) -> Internet:
    """Start the stand-in on a new internal network, at the second address of `public`."""
    address = str(ip_network(public)[2])
    authority = make_authority(folder, [*HOSTS, WORK])
    for script in ("fake_forge.py", "fake_internet.py", "fake_model_api.py"):
        shutil.copy(LAB / script, folder)
    folder.chmod(0o755)
    # Containers without a fixed address get one of the upper half, never the fixed address of a stopped container.
    _, others = ip_network(public).subnets()
    make_network(name, "--internal", f"--subnet={public}", f"--ip-range={others}")
    aliases = [f"--network-alias={host}" for host in HOSTS]
    run(
        "docker", "run", "--detach", f"--name={name}", f"--network={name}", f"--ip={address}", *aliases,
        f"--volume={folder}:/lab:ro", "--user=root", "--stop-signal=KILL", "--entrypoint=python3", image,
        "/lab/fake_internet.py", "--cert=/lab/leaf.pem", "--raw=22", "--raw=853", "--raw=8443",
    )  # fmt: skip
    return Internet(name=name, ca=authority)


def make_network(name: str, *options: str) -> None:
    """Make a network, in place of one that an interrupted run left."""
    remove_network(name)
    run("docker", "network", "create", *options, name)


def remove_network(name: str = INTERNET) -> None:
    """Remove a network with all containers on it, and a stopped container of that name."""
    found = run(
        "docker", "network", "inspect", "--format={{range $id, $_ := .Containers}}{{$id}} {{end}}", name, check=False
    )
    run("docker", "rm", "--force", name, *found.stdout.split(), check=False)
    run("docker", "network", "rm", name, check=False)


def connect_to(internet: Internet, path: Path) -> Path:
    """Lead a rendered project's egress to the stand-in, by an override file outside the project."""
    config = json.loads(run("docker", "compose", "config", "--format=json", cwd=path).stdout)
    override = path.with_name(f"{path.name}-override.json")
    proxy = {
        "command": [*config["services"]["proxy"]["command"], "--upstream-ca", "/upstream-ca.crt"],
        "volumes": [f"{internet.ca}:/upstream-ca.crt:ro"],
        "healthcheck": {"start_period": START_PERIOD},
    }
    networks = {"egress": {"external": True, "name": internet.name}}
    override.write_text(json.dumps({"services": {"proxy": proxy}, "networks": networks}))
    env = path / ".env"
    env.write_text(env.read_text().replace("docker-compose.yml", f"docker-compose.yml:{override}"))
    trust(path)
    return override


def trust(path: Path, environ: Mapping[str, str] = os.environ) -> None:
    """Have the user trust a project as it is, without the question; the two commands for it would take two seconds."""
    store = open_store(environ)
    remember(current_settings(checked_in_root(path, cwd=path), store).now, store)


# What most attacks run in: a small image of the project's own, and masks of paths that are not there.
OWN_IMAGE = """\
version: 1
packages: [tree]
mask: [masked.env, masked/]
"""


def use_own_image(project: Project) -> None:
    """Make the project's stack from a project file, with its own image and masks."""
    (project.path / ".devcontainer" / "sandbox.yaml").write_text(OWN_IMAGE)
    trust(project.path)


class Projects:
    """Makes projects, and takes their stacks down at the end."""

    def __init__(self, internet: Internet, folder: Path) -> None:
        self.internet = internet
        self.folder = folder
        self.made: list[Project] = []

    def make(
        self,
        name: str,
        agent: str,
        *init: str,
        owner: int = 1000,
        home: Path | None = None,
        fill: Callable[[Path], None] = lambda _: None,
    ) -> Project:
        """Make a directory that `owner` owns with what `fill` puts there, and run `init` in it."""
        path = self.folder / str(len(self.made)) / name
        path.mkdir(parents=True)
        fill(path)
        for place in (path, *path.rglob("*")):
            os.chown(place, owner, owner, follow_symlinks=False)
        agent_sandbox("init", agent, *init, cwd=path, env={"HOME": str(home)} if home else {})
        project = Project(path=path, internet=self.internet, override=connect_to(self.internet, path))
        self.made.append(project)
        return project

    def remove(self) -> None:
        """Take down every stack with its volumes."""
        for project in self.made:
            project.compose("down", "--volumes", "--timeout=0", check=False)
