"""List what a project file asks for that another one did not. A key that only takes away is not listed."""

from collections.abc import Iterator

from agent_sandbox.projectfile.spec import ProjectSpec
from agent_sandbox.stack.limits import DEFAULT, LIMITS, limit_texts, limits


def widens(now: ProjectSpec, before: ProjectSpec) -> tuple[str, ...]:
    """Return one line for each key that gives the agent more, or runs something else."""
    return (*_agents(now, before), *_limits(now, before))


def _agents(now: ProjectSpec, before: ProjectSpec) -> Iterator[str]:
    added = [name for name in now.agents or () if name not in (before.agents or ())]
    if added:
        yield f"agents: {', '.join(added)}"


def _limits(now: ProjectSpec, before: ProjectSpec) -> Iterator[str]:
    more, had = limits(now.limits.texts), limits(before.limits.texts)
    for name in LIMITS:
        if getattr(more, name) > getattr(had, name):
            default = f"; the default is {limit_texts(DEFAULT)[name]}"
            yield f"limits: {name} {limit_texts(more)[name]}, before {limit_texts(had)[name]}{default}"
