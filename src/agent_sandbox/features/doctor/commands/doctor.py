"""`agent-sandbox doctor`."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Annotated

from msgspec import to_builtins
from typer import Option

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import ExtraCa, Json, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.engines.protocol import Machine, Row, Stage
from agent_sandbox.engines.result import CheckResult, Status, fail, ok, warn
from agent_sandbox.engines.verbs import Drop
from agent_sandbox.features.doctor.table import checks_for, examine
from agent_sandbox.features.stack.execute import driver, execute
from agent_sandbox.features.stack.init.build_inputs import build_of
from agent_sandbox.images import registries_image
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import open_project

Build = Annotated[bool, Option(help="Also check that a build can download packages; takes minutes the first time.")]


def doctor(*, path: ProjectPath = None, build: Build = False, extra_ca: ExtraCa = None, json: Json = False) -> int:
    """Check this machine, and the project if there is one; exit 1 if something needs fixing."""
    machine = Machine(path=path, cwd=Path.cwd(), driver=driver())
    tried = Row(name="builds", stage=Stage.START, check=partial(builds, extra_ca=extra_ca), engine=True)
    found, results = examine(machine, (*checks_for(machine), *((tried,) if build else ()))), []
    for result in found if json else folded(found):
        results.append(result)
        if not json:
            emit_lines(as_lines(result))
    failed = sum(result.status is Status.FAIL for result in results)
    if json:
        emit_json({"ok": not failed, "checks": to_builtins(results)})
    else:
        emit_lines([_verdict(failed, has_project=machine.has_project)])
    return FIXABLE if failed else DONE


def folded(results: Iterable[CheckResult]) -> Iterator[CheckResult]:
    """Yield the results, with one in place of several known vulnerabilities; `--json` has each."""
    for (name, status), found in groupby(results, key=lambda result: (result.name, result.status)):
        if (name, status) != ("holes", Status.WARN):
            yield from found
            continue
        first, *others = found
        if not others:
            yield first
            continue
        components = ", ".join(dict.fromkeys(one.what.partition(" has ")[0] for one in (first, *others)))
        hint = "update them, unless your distribution has fixed these versions; agent-sandbox doctor --json lists each"
        yield warn(name, f"{len(others) + 1} known vulnerabilities in {components}", hint)


def as_lines(result: CheckResult) -> Iterator[str]:
    """Yield a result as text: status, name, what was found, and the hint on its own line."""
    first, *others = result.what.split("\n")
    yield styled((f"{result.status:<4}", result.status), f"  {result.name:<10}  {first}")
    yield from (f"{'':<18}{line}" for line in others)  # none begins where a status does
    if result.hint:
        yield styled(f"{'':<18}", (result.hint, "title"))


def _verdict(failed: int, *, has_project: bool) -> str:
    if failed:
        return styled((f"{failed} to fix", Status.FAIL))
    return styled(("ready", Status.OK), "" if has_project else " for `agent-sandbox init AGENT`")


def builds(machine: Machine, *, extra_ca: Path | None = None) -> CheckResult:
    """Build an image with one package of Debian's, npm's and PyPI's, and remove it; the first time takes minutes."""
    planner = machine.driver.planner
    project = open_project(machine.path, cwd=machine.cwd) if machine.has_project else None
    base = project.base_image if project else ""
    if base and project and not project.files:  # a build runs programs of the image that it begins with
        what = f"the project's base image {base} is not trusted"
        return fail("builds", what, "agent-sandbox trust shows it and asks")
    image = registries_image(datetime.now(UTC).isoformat(), base)
    build = build_of((image,), extra_ca=extra_ca)
    try:
        execute(planner.build(build))
    except UserError as error:
        (problem,) = error.problems
        return fail("builds", problem.what, problem.hint)
    machine.driver.execute(planner.drop(Drop(images=(image.name,))))
    return ok("builds", "a build can download packages of Debian, npm and PyPI")
