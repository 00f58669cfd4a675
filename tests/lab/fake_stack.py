"""What a fake docker is asked of a stack, and what it says of its containers."""

import json
import os
from pathlib import Path

from agent_sandbox.runtime.trust.standing import look
from agent_sandbox.runtime.trust.store import open_store
from fake_docker import FakeDocker


def trust(root: Path) -> None:
    """Say yes to a project as it is."""
    open_store(os.environ).save(look(root, os.environ))


def compose_line(root: Path) -> str:
    """Return how compose is called for app-1 at `root`: with what was trusted there, and nothing else."""
    store = open_store(os.environ)
    (copy,) = store.copies(look(root, os.environ))
    return f"compose --project-name app-1 --project-directory .devcontainer --env-file /dev/null --file {copy}"


def with_containers(docker: FakeDocker, *, network: str = "app-1_sandbox", **states: str) -> FakeDocker:
    """Have one container for each service: `healthy`, `unhealthy`, `starting` run, other states are the container's."""
    found = [_inspected(service, state, network) for service, state in states.items()]
    docker.says("ps --all --quiet", out="".join(f"{service}\n" for service in states))
    return docker.says("inspect --type container", out=json.dumps(found))


def _inspected(service: str, state: str, network: str) -> dict[str, object]:
    health = {"Health": {"Status": state}} if state in {"healthy", "unhealthy", "starting"} else {}
    return {
        "Id": service.ljust(64, "0"),
        "Config": {"Image": "agent-sandbox/x:1", "Labels": {"com.docker.compose.service": service}},
        "State": {"Status": "running" if health else state, "ExitCode": 1, **health},
        "NetworkSettings": {"Networks": {network: {}}},
    }
