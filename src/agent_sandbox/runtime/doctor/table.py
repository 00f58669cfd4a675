"""The table of checks, in the order in which a user would fix things."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from agent_sandbox.problems import UserError
from agent_sandbox.runtime.doctor import docker, project, workspace
from agent_sandbox.runtime.doctor.disk import disk
from agent_sandbox.runtime.doctor.holes import holes
from agent_sandbox.runtime.doctor.machine import Machine
from agent_sandbox.runtime.doctor.network import subnet
from agent_sandbox.runtime.doctor.result import CheckResult, Status, fail
from agent_sandbox.runtime.doctor.upstream import upstream
from agent_sandbox.runtime.doctor.users import kernel

type Check = Callable[[Machine], CheckResult | Iterable[CheckResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A check and its preconditions."""

    name: str
    check: Check
    engine: bool = False
    project: bool = False


CHECKS = (
    Row(name="docker", check=docker.docker),
    Row(name="engine", check=docker.engine),
    Row(name="compose", check=docker.compose),
    Row(name="buildx", check=docker.buildx),
    Row(name="isolation", check=docker.isolation, engine=True),
    Row(name="seccomp", check=docker.seccomp, engine=True),
    Row(name="holes", check=holes, engine=True),
    Row(name="disk", check=disk, engine=True),
    Row(name="templates", check=project.templates),
    Row(name="stack", check=project.stack, project=True),
    Row(name="policy", check=project.policy, project=True),
    Row(name="upstream", check=upstream, project=True),
    Row(name="dotenv", check=project.dotenv, project=True),
    Row(name="limits", check=project.limits, engine=True, project=True),
    Row(name="kernel", check=kernel, engine=True, project=True),
    Row(name="owner", check=project.owner, engine=True, project=True),
    Row(name="mounts", check=workspace.mounts, engine=True, project=True),
    Row(name="workspace", check=workspace.names, project=True),
    Row(name="images", check=project.images, engine=True, project=True),
    Row(name="subnet", check=subnet, engine=True, project=True),
)


def examine(machine: Machine, checks: Iterable[Row] = CHECKS) -> Iterator[CheckResult]:
    """Yield the results; a check that cannot run has failed, and each cause is reported once."""
    told: set[str] = set()
    for row in checks:
        if (row.engine and not machine.engine_answers) or (row.project and not machine.has_project):
            continue
        for result in _run(row, machine):
            # Without the docker command, do not also report engine, compose and buildx.
            if result.status is not Status.FAIL or result.what not in told:
                yield result
            told.add(result.what)


def _run(row: Row, machine: Machine) -> tuple[CheckResult, ...]:
    try:
        found = row.check(machine)
        return (found,) if isinstance(found, CheckResult) else tuple(found)
    except UserError as error:
        return tuple(
            fail(row.name, f"{problem.where}: {problem.what}" if problem.where else problem.what, problem.hint)
            for problem in error.problems
        )
