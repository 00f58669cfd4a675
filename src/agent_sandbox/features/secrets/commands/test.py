"""`agent-sandbox secret test NAME`."""

import os
import shlex
from pathlib import Path
from secrets import token_hex
from time import sleep
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from typer import Argument, Option

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.features.policy.file import shown
from agent_sandbox.features.policy.layers import load_here
from agent_sandbox.features.secrets.git_setup import git_tests
from agent_sandbox.features.secrets.keyed_services import known_tests
from agent_sandbox.features.secrets.secret_binding import named_secrets, read_binding
from agent_sandbox.features.secrets.secret_store import secrets_of
from agent_sandbox.features.stack.execute import driver, require_running
from agent_sandbox.features.traffic.audit_log import read_log
from agent_sandbox.features.traffic.record import Record, read_record
from agent_sandbox.policytools.unset_secrets import Bound, unheard
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project

completions = named_secrets
Name = Annotated[str, Argument(help="The secret's name in the policy.")]
Url = Annotated[str, Option(help="The URL to request, if the secret is not the key of a service.")]
SECONDS = 20
REFUSED = frozenset({401, 403})
UNCOMPARED = "note: the audit log has no queries, so a program in the sandbox could have sent another one"
BAD_REQUEST, TOO_MANY = 400, 429  # only clients that are known have a limit of requests
PORTS = {"https": 443, "http": 80}
UNREACHED = 502  # mostly the proxy's own answer, and then the reason says why
# A header whose name nobody else sends marks this request in the audit log.
MARKER = "secret-test-"
READS, PAUSE = 40, 0.25


def test(name: Name, *, url: Url = "", path: ProjectPath = None) -> int:
    """Send one harmless request from the sandbox, and print whether the secret was sent and what the server answers.

    Exit 1 if the proxy denies the request or sends it without the secret, or if the answer does not show that the
    server accepts the secret.
    """
    bound = read_binding(name, ())
    project = open_project(path, cwd=Path.cwd())
    agent = require_running(project, "agent")
    held = _held(project, bound.name)
    address, marker = url or _address(project, held), f"{MARKER}{token_hex(8)}"
    # The agent can write ~/.curlrc, which could name another address, or one that never ends.
    curl = (
        *("curl", "--disable", "-sS", "--path-as-is", "--max-time", str(SECONDS), "-o", "/dev/null"),
        *("-H", "Accept: application/json"),
        *("-H", "Git-Protocol: version=2"),  # a git server then lists no branches
        *("-H", f"{marker}: 1", "--", address),
    )
    done = driver().spawn(agent, *curl).capture()
    if done.code != 0:
        raise UserError([_failed(address, done.last_line)])
    # The agent may have replaced curl, too: only the audit log says what was sent, and what the server answered.
    record = _logged(project, marker, urlsplit(address))
    if record is None:
        what = f"whether {held.name} was sent is unknown: the audit log does not show the request"
        hint = "with `inspect: false`, the proxy cannot inject secrets"
        raise UserError([Problem(where=address, what=what, hint=hint)])
    if record.decision != "allow":
        explain = f"agent-sandbox policy explain {shlex.quote(address)}"
        raise UserError([Problem(where=address, what=printable(record.reason), hint=explain)])
    if record.status in {None, UNREACHED}:
        raise UserError([_failed(address, record.reason)])
    if problem := _unsent(project, held, record):
        what = f"the server answers {record.status}, but {problem.what}"
        raise UserError([Problem(where=address, what=what, hint=problem.hint)])
    verdict = _verdict(record.status, bound.name)
    say(f"{bound.name} was sent to {record.host}, which answers {record.status}{verdict}")
    if urlsplit(url).query:
        say(UNCOMPARED)
    return FIXABLE if verdict else DONE


def _failed(address: str, why: str) -> Problem:
    what = f"the request failed: {printable(why or 'no answer')}"
    return Problem(where=address, what=what, hint="agent-sandbox proxy logs")


def _unsent(project: Project, secret: Bound, record: Record) -> Problem | None:
    """Return why the request was not sent with the secret, None if it was."""
    sent = [use.secret for use in record.secrets]
    if secret.name in sent:
        return None
    instead = f"; {', '.join(map(printable, sent))} was sent instead" if sent else ""
    policy = load_here(shown(project.policy, cwd=Path.cwd()), os.environ)
    elsewhere = next(unheard(policy, Bound(name=secret.name, hosts=(record.host,))), "")
    hint = elsewhere or "agent-sandbox policy explain URL shows the rule that allows the request"
    return Problem(where="", what=f"{secret.name} was not sent{instead}", hint=hint)


def _logged(project: Project, marker: str, asked: SplitResult) -> Record | None:
    """Return the record of the marked request to that address; it may follow the response by a moment."""
    port = asked.port or PORTS.get(asked.scheme)
    found, wanted = list[Record](), ("GET", asked.scheme, asked.hostname, port, asked.path or "/")

    def take(line: str) -> None:
        record = read_record(line)
        if record is None or marker not in record.headers.split(", "):
            return
        if (record.method, record.scheme, record.host, record.port, record.path) == wanted:
            found.append(record)

    for _ in range(READS):
        read_log(project, take, "--tail", "100")
        if found:
            return found[0]
        sleep(PAUSE)
    return None


def _verdict(status: int, name: str) -> str:
    """Return why a status does not show that the server accepts the secret, "" if it does."""
    if status in REFUSED:
        return f": it does not accept {name}"
    if status >= BAD_REQUEST and status != TOO_MANY:
        return f": that does not show whether it accepts {name}"
    return ""


def _held(project: Project, name: str) -> Bound:
    found = next((one for one in secrets_of(project) if one.name == name), None)
    if found is None:
        hint = "agent-sandbox secret list shows which are set"
        raise UserError([Problem(where=name, what="the proxy has no such secret", hint=hint)])
    return found


def _address(project: Project, secret: Bound) -> str:
    """Return the address of a harmless request to a host of the secret."""
    tests = known_tests(project.policy) | git_tests(project.policy)
    known = next((one for one in (secret.name, *secret.hosts) if one in tests), None)
    if known is None:
        hint = f"name one: --url https://{next(iter(secret.hosts), 'HOST')}/PATH"
        raise UserError([Problem(where=secret.name, what="no harmless request is known for its hosts", hint=hint)])
    return f"https://{''.join(tests[known])}"
