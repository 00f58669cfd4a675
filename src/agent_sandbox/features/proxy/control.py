"""Query the running proxy, in its container or through the control socket of one on this machine."""

import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_sandbox.bounded_json import read_json
from agent_sandbox.engines.container import Container
from agent_sandbox.engines.place import Helper, Role
from agent_sandbox.engines.protocol import Driver
from agent_sandbox.features.proxy.decisions import read_line
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project import Project
from agent_sandbox.stack.containers import CONTROL, LOG, PROGRAM, PROXY_USER, SECRETS

SECONDS = 30.0
FIXABLE, USAGE = 1, 2  # exit codes of the proxy program
ASKING = "asking the proxy"
STOPPED = Problem(where="proxy", what="it stopped or restarted during the request", hint="agent-sandbox status")

OTHER = Problem(
    where="proxy", what="the running proxy is of another version", hint="agent-sandbox init, then agent-sandbox up"
)


def ask_proxy(driver: Driver, proxy: Container | Project, *argv: str) -> Mapping[str, Any]:
    """Ask a stack's running proxy over its control socket; return its answer, even if it reports an error.

    Its container, if that is known, answers sooner than the proxy of a project, which has to be found.
    """
    place = proxy if isinstance(proxy, Container) else Role(project=proxy, service="proxy")
    done = driver.spawn(place, *PROGRAM, *argv, "--control", CONTROL).capture(timeout=SECONDS)
    answer = _object(done.out)
    if answer is None:
        raise UserError([driver.explain(done.err or done.out, doing=ASKING)])
    return answer


def tell_secrets(driver: Driver, project: Project, *argv: str, runs: bool = True, stdin: bytes = b"") -> str:
    """Have the proxy's program `set`, `list` or `remove` secrets, with a value on stdin; return what it prints.

    Raise its problems as UserError. If the proxy does not run, a temporary container of it runs the program.
    """
    place = Role(project=project, service="proxy", runs=runs)
    words = (*(PROGRAM if runs else ()), "secret", *argv, "--folder", SECRETS)
    done = driver.spawn(place, *words, stdin=True).capture(timeout=SECONDS, stdin=stdin)
    if done.code == 0:
        return done.out
    if done.code == USAGE:
        raise UserError([OTHER])
    said = [Problem(where="", what=line) for line in done.err.splitlines() if done.code == FIXABLE]
    doing = ASKING if runs else "opening the secrets"
    raise UserError(said or [driver.explain(done.err or done.out, doing=doing)])


def read_traffic(driver: Driver, place: Role | Helper, *argv: str, on_line: Callable[[str], None]) -> None:
    """Have the proxy's program print its audit log, and pass on each line until it ends."""
    user = PROXY_USER if isinstance(place, Helper) else ""
    words = (*PROGRAM, "log", "--file", LOG, *argv)
    done = driver.spawn(place, *words, stdin=isinstance(place, Role), user=user).watch(on_line=on_line)
    if done.code != 0:
        said = "\n".join(line for line in done.out.split("\n") if line and read_line(line) is None)
        raise UserError([driver.explain(said, doing="reading the traffic log") if said else STOPPED])


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
