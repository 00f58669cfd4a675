"""`agent-sandbox doctor`."""

from dataclasses import asdict
from pathlib import Path

from agent_sandbox.cli.framework.errors import DONE, MENDABLE
from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.steps.execute import driver
from agent_sandbox.cli.terminal.output import emit, emit_json
from agent_sandbox.runtime.doctor.table import examine
from agent_sandbox.runtime.driver.protocol import Machine
from agent_sandbox.runtime.driver.result import CheckResult, Status


def doctor(*, path: ProjectPath = None, json: Json = False) -> int:
    """Check this machine, and the project if there is one; exit 1 if something needs fixing."""
    machine = Machine(path=path, cwd=Path.cwd(), driver=driver())
    results = []
    for result in examine(machine):
        results.append(result)
        if not json:
            emit(as_text(result))
    failed = sum(result.status is Status.FAIL for result in results)
    if json:
        emit_json({"ok": not failed, "checks": [asdict(result) for result in results]})
    else:
        emit(_verdict(failed, has_project=machine.has_project))
    return MENDABLE if failed else DONE


def as_text(result: CheckResult) -> str:
    """Return a result as text: status, name, what was found, and the hint on its own line."""
    hint = f"\n                  {result.hint}" if result.hint else ""
    return f"{result.status:<4}  {result.name:<10}  {result.what}{hint}"


def _verdict(failed: int, *, has_project: bool) -> str:
    if failed:
        return f"{failed} to fix"
    return "ready" if has_project else "ready for `agent-sandbox init AGENT`"
