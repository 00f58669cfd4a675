"""The table of the driver's checks."""

import os
from collections.abc import Callable, Iterable, Iterator

from agent_sandbox.engines.compose.checks import files, versions
from agent_sandbox.engines.compose.checks.beside import beside
from agent_sandbox.engines.compose.checks.holes import holes
from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.checks.owner import owner
from agent_sandbox.engines.compose.checks.sizes import disk, sizes
from agent_sandbox.engines.compose.checks.subnet import subnet
from agent_sandbox.engines.compose.checks.users import kernel
from agent_sandbox.engines.protocol import Row, Stage
from agent_sandbox.engines.result import CheckResult
from agent_sandbox.project.project import Project

ENGINE, FIT, START = Stage.ENGINE, Stage.FIT, Stage.START


def checks_of(host: EngineHost) -> tuple[Row, ...]:
    """Return the checks, in order."""
    return (*_of_engine(host), *_of_project(host))


def _of_engine(host: EngineHost) -> Iterator[Row]:
    yield Row(name=host.engine.program, stage=ENGINE, check=lambda _: versions.command(host))
    yield Row(name="engine", stage=ENGINE, check=lambda _: versions.engine(host))
    yield Row(name="compose", stage=ENGINE, check=lambda _: versions.compose(host))
    yield Row(name="buildx", stage=ENGINE, check=lambda _: versions.buildx(host))
    yield Row(name="platform", stage=ENGINE, check=lambda _: versions.platform(host), engine=True)
    yield Row(name="isolation", stage=ENGINE, check=lambda _: versions.isolation(host), engine=True)
    yield Row(name="seccomp", stage=ENGINE, check=lambda _: versions.seccomp(host), engine=True)
    yield Row(name="holes", stage=ENGINE, check=lambda _: holes(host), engine=True)
    yield Row(name="disk", stage=ENGINE, check=lambda _: disk(host), engine=True)


def _of_project(host: EngineHost) -> Iterator[Row]:
    yield Row(name="dotenv", stage=FIT, check=lambda machine: files.dotenv(machine.project, os.environ), project=True)
    yield _fit("limits", lambda project: files.limits(host, project))
    yield _fit("kernel", lambda project: kernel(host, project))
    yield _fit("owner", lambda project: owner(host, project))
    yield _fit("subnet", lambda project: subnet(host, project), stage=START)
    yield _fit("beside", lambda project: beside(host, project), stage=START)
    yield _fit("sizes", lambda project: sizes(host, project), stage=START)


def _fit(name: str, check: Callable[[Project], CheckResult | Iterable[CheckResult]], *, stage: Stage = FIT) -> Row:
    return Row(name=name, stage=stage, check=lambda machine: check(machine.project), engine=True, project=True)
