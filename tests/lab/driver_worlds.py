"""The worlds in which the conformance suite tries a driver: a fake engine, or a real one."""

import json
import subprocess
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agent_sandbox.engines.protocol import Driver
from agent_sandbox.engines.verbs import Build, Destroy, Up
from agent_sandbox.project.project import Project
from agent_sandbox.stack.naming import network_name
from agent_sandbox.stack.recorded import Owner
from fake_docker import FakeDocker
from fake_stack import inspected

SERVICES = ("proxy", "firewall", "agent")


class World(Protocol):
    """An engine with a project on it, which the suite brings into a state and then asks about."""

    driver: Driver
    project: Project
    image: str

    def have(self, **states: str) -> None:
        """Have one container for each service: `running`, `exited` or `paused`."""

    def add_stranger(self) -> str:
        """Connect a foreign container to the internal network, and return its name."""

    def add_sharer(self) -> str:
        """Have a foreign container in the firewall's namespace, and return its name."""

    def end(self) -> None:
        """Remove everything."""


# Runs here what should run in a container. Its id begins with the name of its service.
RUN_HERE = """\
until [ "$1" = exec ] || [ "$1" = run ]; do compose=1; shift; done
how=$1 input=$compose name=; shift
while [ "$#" -gt 0 ]; do
  case $1 in
    --interactive) input=1 ;;
    --env) export "$2"; shift ;;
    --user) user=$2; shift ;;
    --entrypoint) program=$2; shift 3; set -- "$program" "$@"; break ;;
    --security-opt | --pull | --network | --cap-drop | --mount | --workdir) shift ;;
    --pids-limit | --memory | --memory-swap | --tmpfs) shift ;;
    --*|-T) ;;
    *) name=$1; shift; break ;;
  esac
  shift
done
name=${{name%%0*}}
case " {running} " in *" $name "*) ;; *) [ "$how" = run ] || {{ echo "No such container: $name" >&2; exit 1; }} ;; esac
[ "$input" ] || exec </dev/null
if [ "$1" = id ]; then echo "${{user:-0:0}}"; exit; fi
exec "$@"
"""


@dataclass(kw_only=True)
class FakeWorld:
    """A fake command on PATH that answers as the engine's own does."""

    driver: Driver
    project: Project
    fake: FakeDocker
    image: str = "image:1"
    members: dict[str, dict[str, str]] = field(default_factory=dict)
    joined: list[str] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)

    def have(self, **states: str) -> None:
        """Answer as for these containers."""
        self.states = states
        self._answer()

    def add_stranger(self) -> str:
        """List a foreign member of the network."""
        self.members["9" * 64] = {"Name": "stranger"}
        self._answer()
        return "stranger"

    def add_sharer(self) -> str:
        """List a foreign container that joined the firewall."""
        self.joined.append(f"{'8' * 64} sharer container:{'firewall'.ljust(64, '0')}")
        self._answer()
        return "sharer"

    def end(self) -> None:
        """Do nothing: the fake is in the test's own directory."""

    def _answer(self) -> None:
        network = network_name(self.project.name)
        found = [inspected(service, state, network) for service, state in self.states.items()]
        ids = "".join(f"{container['Id']}\n" for container in found)
        self.fake.rules.clear()
        self.fake.says(f"network inspect {network}", out=json.dumps(self.members))
        self.fake.says("ps --quiet --no-trunc", out="1\n").says(
            "inspect --type container --format", out="\n".join(self.joined)
        )
        names = {kind: f"{self.project.name}-{kind}\n" if found else "" for kind in ("ps", "network", "volume")}
        self.fake.says("{{.Names}}", out=names["ps"]).says("network ls", out=names["network"])
        self.fake.says("volume ls", out=names["volume"])
        self.fake.says("ps --all --quiet", out=ids).says("inspect --type container", out=json.dumps(found))
        self.fake.says("image inspect", err="Error response from daemon: No such image: x\n", code=125)
        self.fake.says("logs --tail", out="hello\n")
        running = [service for service, state in self.states.items() if state in {"healthy", "running"}]
        for words in (" exec ", "exec ", "run "):
            self.fake.says(words, script=RUN_HERE.format(running=" ".join(running)))
        self.fake.says("unpause").says("stop --time").says("docker-compose.yml fail", err="it broke\n", code=1)
        self.fake.says("compose").says("volume prune").says("image rm", err="in use\n", code=1)


COMPOSE = """\
name: {name}
x-engine: &service
  image: {image}
  entrypoint: [sleep, infinity]
  init: true
  healthcheck: {{test: "true", interval: 1s}}
services:
  proxy: {{<<: *service, networks: [sandbox]}}
  firewall: {{<<: *service, networks: [sandbox]}}
  agent: {{<<: *service, network_mode: "service:firewall"}}
networks:
  sandbox: {{internal: true}}
"""


@dataclass(kw_only=True)
class RealWorld:
    """A small stack on a real engine, started and removed by the driver's own plans."""

    driver: Driver
    project: Project
    image: str
    foreign: list[str] = field(default_factory=list)

    def have(self, **states: str) -> None:
        """Start the whole stack, then remove, stop or pause what has to be in another state."""
        self.driver.execute(self.driver.planner.plan(self.project, Up(build=Build(images=()))))
        for service in reversed(SERVICES):
            name = f"{self.project.name}-{service}-1"
            match states.get(service):
                case None:
                    self._run("rm", "--force", name)
                case "exited":
                    self._run("stop", "--time", "0", name)
                case "paused":
                    self._run("pause", name)
                case _:
                    pass

    def add_stranger(self) -> str:
        """Start a foreign container in the internal network."""
        return self._foreign("stranger", network_name(self.project.name))

    def add_sharer(self) -> str:
        """Start a foreign container in the firewall's namespace."""
        return self._foreign("sharer", f"container:{self.project.name}-firewall-1")

    def end(self) -> None:
        """Remove the foreign containers, then the stack."""
        if self.foreign:
            self._run("rm", "--force", *self.foreign)
        self.driver.execute(self.driver.planner.plan(self.project, Destroy()))

    def _foreign(self, kind: str, network: str) -> str:
        name = f"{self.project.name}-{kind}"
        self.foreign.append(name)
        self._run("run", "--detach", "--name", name, "--network", network, "--entrypoint", "sleep", self.image, "1000")
        return name

    def _run(self, *arguments: str) -> None:
        subprocess.run(("docker", *arguments), check=True, capture_output=True)


def project_in(root: Path, name: str) -> Project:
    """Return a project with this name and one file."""
    file = root / ".devcontainer" / "docker-compose.yml"
    return Project(root=root, name=name, agents=("example",), owner=Owner(), images=(), files=(file,))


def real_world(driver: Driver, root: Path, *, image: str) -> RealWorld:
    """Return a world with a new project on a real engine."""
    project = project_in(root, f"conformance-{uuid.uuid4().hex[:8]}")
    project.files[0].parent.mkdir()
    project.files[0].write_text(COMPOSE.format(name=project.name, image=image))
    return RealWorld(driver=driver, project=project, image=image)
