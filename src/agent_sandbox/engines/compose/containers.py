"""List what a project has on the Docker engine, by its label: the project's files may be broken."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from agent_sandbox.bounded_json import read_json
from agent_sandbox.engines.compose.engine import Engine
from agent_sandbox.engines.compose.plan import PROJECT_LABEL
from agent_sandbox.engines.container import Container, StackFound
from agent_sandbox.images import OURS
from agent_sandbox.problems import UserError
from agent_sandbox.stack.limits import size

# Their values name the stack's directory, and what no other project has.
DIRECTORY_LABEL = "com.docker.compose.project.working_dir"
CA_VOLUME = "ca-private"
SERVICE_LABEL = "com.docker.compose.service"
# The compose files of a container, and how the Dev Containers CLI names the one that it adds.
FILES_LABEL = "com.docker.compose.project.config_files"
EDITORS_FILE = "/docker-compose.devcontainer."
# The order in which the services start: each waits for the one before it.
GONE = re.compile("no such (?:container|object)", re.IGNORECASE)
ORDER = ("proxy", "firewall", "agent")
# The engine's values for "unlimited".
NONE = {"0", "0g", "-1"}
NANOSECONDS = 1e9


def containers(engine: Engine, project: str, service: str = "") -> tuple[Container, ...]:
    """Return the project's containers, or those of one service, including stopped ones, in start order.

    Usually one has the name that Compose gives it, so one question is enough. The labels confirm that it is the one.
    """
    if service:
        done = engine.ask("inspect", "--type", "container", f"{project}-{service}-1")
        wanted = {PROJECT_LABEL: project, SERVICE_LABEL: service}
        named = read_json(done.out) if done.code == 0 else ()
        if found := [one for one in named if wanted.items() <= (one["Config"]["Labels"] or {}).items()]:
            return tuple(map(_container, found))
    ids = engine.answer(
        "ps", "--all", "--quiet", "--filter", f"label={PROJECT_LABEL}={project}", doing="looking for the stack"
    )
    listed = sorted(map(_container, _inspected(engine, ids.split())), key=_place)
    return tuple(one for one in listed if service in {"", one.service})


def stacks(engine: Engine) -> tuple[StackFound, ...]:
    """Return the compose projects that run an image of ours or have the volume of a stack's CA, sorted by name."""
    row = f'{{{{.Label "{PROJECT_LABEL}"}}}} {{{{.Name}}}}'
    labelled = ("--filter", f"label={PROJECT_LABEL}")
    rows = engine.answer("volume", "ls", *labelled, "--format", row, doing="looking for volumes")
    volumes = defaultdict[str, list[str]](list)
    for project, _, volume in (line.partition(" ") for line in rows.splitlines()):
        volumes[project].append(volume)
    ids = engine.answer("ps", "--all", "--quiet", *labelled, doing="looking for stacks")
    made = defaultdict[str, list[Mapping[str, Any]]](list)
    for found in _inspected(engine, ids.split()):
        made[found["Config"]["Labels"][PROJECT_LABEL]].append(found)
    ours = {name for name, found in made.items() if any(one["Config"]["Image"].startswith(OURS) for one in found)}
    ours |= {name for name, found in volumes.items() if f"{name}_{CA_VOLUME}" in found}
    return tuple(_stack(name, made[name], volumes[name]) for name in sorted(ours))


def _stack(name: str, made: Sequence[Mapping[str, Any]], volumes: Sequence[str]) -> StackFound:
    directories = (one["Config"]["Labels"].get(DIRECTORY_LABEL, "") for one in made)
    return StackFound(
        name=name,
        containers=tuple(sorted(map(_container, made), key=_place)),
        volumes=tuple(sorted(volumes)),
        directory=next(filter(None, directories), ""),
    )


def _inspected(engine: Engine, ids: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return what the engine knows of these containers. Some may be gone since they were listed."""
    if not ids:
        return []
    done = engine.ask("inspect", "--type", "container", *ids)
    complaints = [line for line in done.err.splitlines() if line.strip() and not GONE.search(line)]
    if done.code != 0 and (complaints or not done.err):
        raise UserError([engine.problem(done.err or done.out, doing="looking at the stack")])
    return list(read_json(done.out))


def _place(container: Container) -> tuple[int, str]:
    return ORDER.index(container.service) if container.service in ORDER else len(ORDER), container.service


def leftovers(engine: Engine, project: str) -> dict[str, tuple[str, ...]]:
    """Return the names of all containers, volumes and networks of the project, by kind."""
    label = f"label={PROJECT_LABEL}={project}"
    questions = {
        "containers": ("ps", "--all", "--filter", label, "--format", "{{.Names}}"),
        "networks": ("network", "ls", "--filter", label, "--format", "{{.Name}}"),
        "volumes": ("volume", "ls", "--filter", label, "--format", "{{.Name}}"),
    }
    return {
        kind: tuple(sorted(engine.answer(*question, doing=f"looking for {kind}").split()))
        for kind, question in questions.items()
    }


def _container(found: Mapping[str, Any]) -> Container:
    state, config = found["State"], found["Config"]
    health = state.get("Health") or {}
    # A container that was stopped is unhealthy without a failed check, too, but no check is due.
    unhealthy = state["Status"] == "running" and health.get("Status") == "unhealthy"
    checks = health.get("Log") or [{}]
    return Container(
        id=found["Id"][:12],
        service=config["Labels"].get(SERVICE_LABEL, ""),
        image=config["Image"],
        state=state["Status"],
        health=health.get("Status", ""),
        unchecked=unhealthy and health.get("FailingStreak") == 0,
        check_seconds=_check_seconds(config.get("Healthcheck") or {}),
        started=_time(state.get("StartedAt") or ""),
        exit_code=state.get("ExitCode", 0),
        error=state.get("Error", ""),
        last_check=checks[-1].get("Output", "").strip(),
        limits=_limits(found.get("HostConfig") or {}),
        out_of_memory=state.get("OOMKilled", False),
        restarts=found.get("RestartCount", 0),
        by_editor=EDITORS_FILE in config["Labels"].get(FILES_LABEL, ""),
        networks=tuple(sorted((found.get("NetworkSettings") or {}).get("Networks") or ())),
    )


def _time(said: str) -> datetime | None:
    try:
        return datetime.fromisoformat(said)
    except ValueError:
        return None


def _check_seconds(check: Mapping[str, Any]) -> float:
    """Return the most seconds until the next health check ends."""
    return float((check.get("Interval") or 0) + (check.get("Timeout") or 0)) / NANOSECONDS


def _limits(set_: Mapping[str, Any]) -> dict[str, str]:
    """Return the limits in force, as text."""
    period = set_.get("CpuPeriod") or 100_000
    found = {
        "memory": size(set_.get("Memory") or 0),
        "cpus": f"{(set_.get('CpuQuota') or 0) / period or (set_.get('NanoCpus') or 0) / 1e9:g}",
        "pids": str(set_.get("PidsLimit") or 0),
    }
    found["disk"] = (set_.get("StorageOpt") or {}).get("size", "0")
    return {name: text for name, text in found.items() if text not in NONE}
