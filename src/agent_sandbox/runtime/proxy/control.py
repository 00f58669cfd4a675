"""Query the running proxy, in its container or through the control socket of one on this machine."""

import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_sandbox.backends.plan import Plan, RunCommand
from agent_sandbox.bounded_json import read_json
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.driver.protocol import Driver
from agent_sandbox.runtime.proxy.decisions import read_line

SECONDS = 30.0
FIXABLE, USAGE = 1, 2  # exit codes of the proxy program
STOPPED = Problem(where="proxy", what="it stopped or restarted during the request", hint="agent-sandbox status")

OTHER = Problem(
    where="proxy", what="the running proxy is of another version", hint="agent-sandbox init, then agent-sandbox up"
)


def ask_stack(driver: Driver, plan: Plan) -> Mapping[str, Any]:
    """Run the plan's command and return the proxy's answer, even if it reports an error."""
    (step,) = (step for step in plan if isinstance(step, RunCommand))
    done = driver.capture(step, timeout=SECONDS)
    answer = _object(done.out)
    if answer is None:
        raise UserError([driver.explain(done.err or done.out, doing=step.purpose)])
    return answer


def tell_stack(driver: Driver, plan: Plan, *, stdin: bytes = b"") -> str:
    """Run the plan's command with this stdin and return its output; raise its problems as UserError."""
    (step,) = (step for step in plan if isinstance(step, RunCommand))
    done = driver.capture(step, timeout=SECONDS, stdin=stdin)
    if done.code == 0:
        return done.out
    if done.code == USAGE:
        raise UserError([OTHER])
    said = [Problem(where="", what=line) for line in done.err.splitlines() if done.code == FIXABLE]
    raise UserError(said or [driver.explain(done.err or done.out, doing=step.purpose)])


def watch_stack(driver: Driver, plan: Plan, *, on_line: Callable[[str], None]) -> None:
    """Run the plan's command and pass on each line until it ends."""
    (step,) = (step for step in plan if isinstance(step, RunCommand))
    done = driver.watch(step, on_line=on_line)
    if done.code != 0:
        said = "\n".join(line for line in done.out.split("\n") if line and read_line(line) is None)
        raise UserError([driver.explain(said, doing=step.purpose) if said else STOPPED])


def ask_socket(path: Path, verb: str) -> Mapping[str, Any]:
    """Return the answer of a proxy on this machine."""
    try:
        with socket.socket(socket.AF_UNIX) as talk:
            talk.settimeout(SECONDS)
            talk.connect(str(path))
            talk.sendall(json.dumps({"verb": verb}).encode() + b"\n")
            with talk.makefile("rb") as answers:
                answer = _object(answers.readline().decode("utf-8", "replace"))
    except OSError as error:
        what = f"no proxy answers here: {error.strerror or error}"
        hint = "`agent-sandbox proxy run` prints its control socket when it is ready"
        raise UserError([Problem(where=str(path), what=what, hint=hint)]) from error
    if answer is None:
        raise UserError([Problem(where=str(path), what="the program that answers here is not an agent-sandbox proxy")])
    return answer


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        value = read_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
