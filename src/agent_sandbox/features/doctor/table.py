"""The table of checks, in the order in which a user would fix things."""

from collections.abc import Iterable, Iterator

from agent_sandbox.engines.protocol import Machine, Row, Stage
from agent_sandbox.engines.result import CheckResult, Status, fail
from agent_sandbox.features.doctor import project, workspace
from agent_sandbox.features.doctor.upstream import requests, upstream
from agent_sandbox.problems import Problem, UserError

# The checks of every driver; each driver adds its own.
CHECKS = (
    Row(name="templates", stage=Stage.PROJECT, check=project.templates),
    Row(name="stack", stage=Stage.PROJECT, check=project.stack, project=True),
    Row(name="policy", stage=Stage.PROJECT, check=project.policy, project=True),
    Row(name="webhook", stage=Stage.PROJECT, check=project.webhook, project=True),
    Row(name="upstream", stage=Stage.PROJECT, check=upstream, project=True),
    Row(name="mounts", stage=Stage.WORKSPACE, check=workspace.mounts, engine=True, project=True),
    Row(name="workspace", stage=Stage.WORKSPACE, check=workspace.names, project=True),
    Row(name="git", stage=Stage.WORKSPACE, check=workspace.git, project=True),
    Row(name="firewall", stage=Stage.WORKSPACE, check=project.firewall, engine=True, project=True),
    Row(name="requests", stage=Stage.START, check=requests, engine=True, project=True),
    Row(name="images", stage=Stage.START, check=project.images, engine=True, project=True),
)


def checks_for(machine: Machine) -> list[Row]:
    """Return our checks and the driver's, by stage."""
    return sorted((*CHECKS, *machine.host.checks), key=lambda row: row.stage)


def examine(machine: Machine, checks: Iterable[Row] | None = None) -> Iterator[CheckResult]:
    """Yield the results; a check that cannot run has failed, and each cause is reported once."""
    seen: set[str] = set()
    for row in checks_for(machine) if checks is None else checks:
        if (row.engine and not machine.host.answers) or (row.project and not machine.has_project):
            continue
        for result in results_of(row, machine):
            # Without the engine's command, do not also report what needs it.
            if result.status is not Status.FAIL or result.what not in seen:
                yield result
            seen.add(result.what)


def engine_problems(machine: Machine) -> tuple[Problem, ...]:
    """Return what is missing on this machine before any stack can start, each once."""
    rows = [row for row in machine.host.checks if row.stage is Stage.ENGINE and not row.engine]
    return tuple(dict.fromkeys(problem for row in rows for problem in _problems(row, machine)))


def _problems(row: Row, machine: Machine) -> Iterator[Problem]:
    try:
        found = row.check(machine)
    except UserError as error:
        yield from error.problems
        return
    for result in (found,) if isinstance(found, CheckResult) else found:
        if result.status is Status.FAIL:
            yield Problem(where=row.name, what=result.what, hint=result.hint)


def results_of(row: Row, machine: Machine) -> tuple[CheckResult, ...]:
    """Return the results of one check; what it raises has failed."""
    try:
        found = row.check(machine)
        return (found,) if isinstance(found, CheckResult) else tuple(found)
    except UserError as error:
        return tuple(
            fail(row.name, f"{problem.where}: {problem.what}" if problem.where else problem.what, problem.hint)
            for problem in error.problems
        )
