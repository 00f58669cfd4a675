"""The questions about a stack to a fake docker, and its answers about the containers."""

import json
import os
from pathlib import Path

from agent_sandbox.images import agent_name, proxy_name
from agent_sandbox.project.owners import owner_of
from agent_sandbox.project.render.formats.header import stamped
from agent_sandbox.project.trust_snapshot import look
from agent_sandbox.project.trust_store import open_store
from agent_sandbox.stack.naming import stack_name
from fake_docker import FakeDocker


def write_stack_file(root: Path, agent: str) -> str:
    """Write as much of a stack file as the checks read, as `init` stamps it; return the stack's name."""
    owner, name = owner_of(root), stack_name("app", str(root))
    (root / ".devcontainer").mkdir()
    (root / ".devcontainer" / "docker-compose.yml").write_text(
        stamped(
            f'name: {name}\nx-agent-sandbox: {{agent: {agent}, dev: "{owner.uid}:{owner.gid}"}}\n'
            f'services: {{proxy: {{image: "{proxy_name()}"}}, agent: {{image: "{agent_name((agent,), owner)}"}}}}\n',
            comment="#",
        )
    )
    return name


def trust(root: Path) -> None:
    """Trust a project in its current state."""
    open_store(os.environ).save(look(root, os.environ))


def compose_line(root: Path) -> str:
    """Return the compose command for app-1 at `root`, with exactly the files that were trusted there."""
    store = open_store(os.environ)
    (copy,) = store.copies(look(root, os.environ))
    return f"compose --project-name app-1 --project-directory .devcontainer --env-file /dev/null --file {copy}"


def with_containers(docker: FakeDocker, *, network: str = "app-1_sandbox", **states: str) -> FakeDocker:
    """Report one container for each service. A state is a health of a running container, or the container's own state.

    `unchecked` was paused: the Docker engine calls it `unhealthy`, although no check failed.
    """
    return with_inspected(docker, *(inspected(service, state, network) for service, state in states.items()))


def with_running(docker: FakeDocker, *stacks: str) -> FakeDocker:
    """Have a running proxy in the stacks whose names begin so, and no container in others."""
    for stack in stacks:
        docker.says(f"com.docker.compose.project={stack}", out="1\n")
    # Without the label of a project, so only a list by that label finds it.
    docker.says("inspect --type container", out=json.dumps([inspected("proxy", "healthy", network="")]))
    return docker.says("ps --all")


def with_inspected(docker: FakeDocker, *found: dict[str, object]) -> FakeDocker:
    """Make `docker inspect` describe these containers."""
    docker.says("ps --all --quiet", out="".join(f"{container['Id']}\n" for container in found))
    return docker.says("inspect --type container", out=json.dumps(found))


def inspected(service: str, state: str, network: str = "app-1_sandbox", restarts: int = 0) -> dict[str, object]:
    """Return what `docker inspect` says of one of them; one that the engine had to start again was out of memory."""
    healths: dict[str, dict[str, object]] = {
        **{name: {"Status": name} for name in ("healthy", "starting")},
        "unhealthy": {"Status": "unhealthy", "FailingStreak": 1},
        "unchecked": {"Status": "unhealthy", "FailingStreak": 0},
        "exited": {"Status": "unhealthy", "FailingStreak": 0},
    }
    health = {"Health": healths[state]} if state in healths else {}
    status = "running" if health and state != "exited" else state
    check = {"Interval": 30_000_000_000, "Timeout": 5_000_000_000}
    return {
        "Id": service.ljust(64, "0"),
        "Config": {
            "Image": "agent-sandbox/x:1",
            "Labels": {
                "com.docker.compose.project": network.removesuffix("_sandbox"),
                "com.docker.compose.service": service,
            },
            "Healthcheck": check,
        },
        "State": {"Status": status, "ExitCode": 1, "OOMKilled": restarts > 0, **health},
        "RestartCount": restarts,
        "HostConfig": {"Memory": 8 << 30, "CpuQuota": 400_000, "PidsLimit": 4096},
        "NetworkSettings": {"Networks": {network: {}}},
    }
