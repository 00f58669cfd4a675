"""List what a project has on the Docker engine, by its label: the project's files may be broken."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agent_sandbox.backends.compose.plan import PROJECT_LABEL
from agent_sandbox.bounded_json import read_json
from agent_sandbox.runtime.compose.engine import Engine
from agent_sandbox.runtime.driver.container import Container
from agent_sandbox.stack.limits import size

SERVICE_LABEL = "com.docker.compose.service"
# The compose files of a container, and how the Dev Containers CLI names the one that it adds.
FILES_LABEL = "com.docker.compose.project.config_files"
EDITORS_FILE = "/docker-compose.devcontainer."
# The order in which the services start: each waits for the one before it.
ORDER = ("proxy", "firewall", "agent")
# The engine's values for "unlimited".
NONE = {"0", "0g", "-1"}
NANOSECONDS = 1e9


def containers(engine: Engine, project: str) -> tuple[Container, ...]:
    """Return the project's containers, including stopped ones, in start order."""
    ids = engine.answer(
        "ps", "--all", "--quiet", "--filter", f"label={PROJECT_LABEL}={project}", doing="looking for the stack"
    )
    if not ids.split():
        return ()
    found = read_json(engine.answer("inspect", "--type", "container", *ids.split(), doing="looking at the stack"))
    return tuple(sorted(map(_container, found), key=_place))


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
    checks = health.get("Log") or [{}]
    return Container(
        id=found["Id"][:12],
        service=config["Labels"].get(SERVICE_LABEL, ""),
        image=config["Image"],
        state=state["Status"],
        health=health.get("Status", ""),
        unchecked=health.get("Status") == "unhealthy" and health.get("FailingStreak") == 0,
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
    return {name: text for name, text in found.items() if text not in NONE}
