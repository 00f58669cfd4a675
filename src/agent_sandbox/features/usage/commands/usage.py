"""`agent-sandbox usage`."""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace
from typer import Option

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import ExtraCa, Json, Quiet
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say, table
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.engines.container import StackFound
from agent_sandbox.engines.verbs import Build
from agent_sandbox.features.policy.registries import this_machine
from agent_sandbox.features.policy.resolve_services import agent_image
from agent_sandbox.features.protect.mount_checks import listed
from agent_sandbox.features.stack.execute import backend, driver, execute
from agent_sandbox.features.stack.init.build_inputs import build_of
from agent_sandbox.features.stack.init.build_registries import npms_own_registry
from agent_sandbox.features.traffic.wanted import since_time
from agent_sandbox.features.usage.token_usage import (
    SECONDS,
    AgentUsage,
    NotAnAnswerError,
    Tokens,
    question,
    read_usage,
    total,
)
from agent_sandbox.images import usage_images, usage_name
from agent_sandbox.project.installed import trusted_projects
from agent_sandbox.project.project import Project
from agent_sandbox.project.trust_store import open_store

AT_ONCE = 4
HEADINGS = ("STACK", "AGENT", ">INPUT", ">OUTPUT", ">CACHE", ">COST")
UNKNOWN = "another user's, or never trusted here"
NO_ANSWER = "the session files could not be read"
NOTHING = "no agent on this machine has reported any tokens"
Since = Annotated[str | None, Option(help="Count the last days, as in `7d`, or from a day on, as in 2026-01-31 (UTC).")]


class Counted(Struct, frozen=True, kw_only=True):
    """The usage of one stack, or why there is none."""

    stack: str
    root: Path | None
    usage: tuple[AgentUsage, ...] = ()
    problem: str = ""


def usage(
    *,
    since: Since = None,
    json: Json = False,
    extra_ca: ExtraCa = None,
    quiet: Quiet = False,
) -> int:
    """Show the tokens that agents used in all stacks, and what they cost by list price.

    The numbers come from the agents' session files, read without a network. They are estimates: an agent can write
    anything there, and a subscription has other prices. The first time, a small image is built.
    """
    day = since_time(since, now=datetime.now(UTC))[:10] if since else ""
    projects = trusted_projects(open_store(os.environ))
    stacks = driver().stacks()
    if stacks:
        execute(backend().build(_build(projects, stacks, extra_ca)), quiet=quiet)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda stack: _counted(projects.get(stack.name), stack, day), stacks))
    if json:
        emit_json(_as_json(found, day))
    elif any(one.usage for one in found):
        emit_lines(_as_text(found))
    else:
        say(NOTHING)
    for problem in (UNKNOWN, NO_ANSWER):
        if names := [one.stack for one in found if one.problem == problem]:
            say(("not counted:", "warn"), f" {listed(names)}: {problem}")
    return FIXABLE if any(one.problem == NO_ANSWER for one in found) else DONE


def _build(projects: Mapping[str, Project], stacks: Sequence[StackFound], extra_ca: Path | None) -> Build:
    build = build_of(usage_images(), extra_ca=extra_ca)
    if build.registries or usage_name() in driver().images((usage_name(),)):
        return build
    here = this_machine(os.environ)
    inside = (agent_image(projects[stack.name]) for stack in stacks if stack.name in projects)
    return replace(build, registries=npms_own_registry(machine for machine in chain((here,), inside) if machine))


def _counted(project: Project | None, stack: StackFound, day: str) -> Counted:
    if project is None:
        return Counted(stack=stack.name, root=None, problem=UNKNOWN)
    asked = question(driver(), project, stack, day)
    if asked is None:
        return Counted(stack=stack.name, root=project.root)
    done = asked.capture(timeout=SECONDS)
    try:
        return Counted(stack=stack.name, root=project.root, usage=read_usage(done.out if done.code == 0 else ""))
    except NotAnAnswerError:
        return Counted(stack=stack.name, root=project.root, problem=NO_ANSWER)


def _as_text(found: Sequence[Counted]) -> Iterator[str]:
    rows = [(one.stack, each.agent, *_cells(each.tokens)) for one in found for each in one.usage]
    every = total(each for one in found for each in one.usage)
    yield from table(HEADINGS, [*rows, ("total", "", *_cells(every))] if len(rows) > 1 else rows, cut=0)
    yield styled("list prices, from what the agents wrote in their session files")


def _cells(tokens: Tokens) -> tuple[str, ...]:
    cache = tokens.cache_creation + tokens.cache_read
    # Without a price for the model, the program says that it costs nothing.
    cost = f"${tokens.cost:,.2f}" if tokens.cost or not tokens.total else "-"
    return (*(f"{number:,}" for number in (tokens.input, tokens.output, cache)), cost)


def _as_json(found: Sequence[Counted], day: str) -> dict[str, Any]:
    return {
        "since": day or None,
        "stacks": [
            {"name": one.stack, "root": str(one.root), "agents": list(map(_agent, one.usage))}
            for one in found
            if not one.problem
        ],
        "total": _numbers(total(each for one in found for each in one.usage)),
        "not_counted": [{"name": one.stack, "why": one.problem} for one in found if one.problem],
    }


def _agent(usage: AgentUsage) -> Mapping[str, Any]:
    models = [{"model": name, **_numbers(tokens)} for name, tokens in usage.models.items()]
    return {"agent": usage.agent, **_numbers(usage.tokens), "models": models}


def _numbers(tokens: Tokens) -> dict[str, Any]:
    return {**to_builtins(tokens), "total": tokens.total, "cost": round(tokens.cost, 6)}
