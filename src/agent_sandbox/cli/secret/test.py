"""`agent-sandbox secret test NAME`."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from agent_sandbox.backends.project import Project
from agent_sandbox.bounded_json import read_json
from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.framework.parameters import Argument, Option
from agent_sandbox.cli.steps.execute import driver, require_running
from agent_sandbox.cli.steps.secrets.git_setup import git_tests
from agent_sandbox.cli.steps.secrets.keyed_services import known_tests
from agent_sandbox.cli.steps.secrets.secret_binding import named_secrets, read_binding
from agent_sandbox.cli.steps.secrets.secret_store import secrets_of
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.policytools.unset_secrets import Bound
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.project.installed import open_project

Name = Annotated[str, Argument(help="The secret's name in the policy.")]
Url = Annotated[str, Option(help="The URL to request, if the secret is not the key of a service.", metavar="URL")]
SECONDS = 20
# The last line of curl's output: the status, and the header that marks the proxy's own answers.
ENDING = "\\n%{http_code} %header{x-agent-sandbox}"
REFUSED = frozenset({401, 403})


def completions(*before: str) -> tuple[str, ...]:
    """Return the secrets that the policy names, for shell completion."""
    return () if before else named_secrets(Path.cwd())


def test(name: Name, *, url: Url = "", path: ProjectPath = None) -> int:
    """Send one harmless request with the secret, from the sandbox, and print what the server answers.

    Exit 1 if the proxy denies the request or the server does not accept the secret.
    """
    bound = read_binding(name, ())
    project = open_project(path, cwd=Path.cwd())
    agent = require_running(project, "agent")
    address = url or _address(project, _held(project, bound.name))
    # The agent can write ~/.curlrc, which could name another address, or one that never ends.
    curl = (
        "curl",
        "--disable",
        "-sS",
        "--max-time",
        str(SECONDS),
        "-H",
        "Accept: application/json",
        "-H",
        "Git-Protocol: version=2",  # a git server then lists no branches
        "-w",
        ENDING,
        "--",
        address,
    )
    done = driver().run_in(agent, *curl)
    body, _, ending = done.out.rpartition("\n")
    status, _, mark = ending.partition(" ")
    if not status.isdecimal() or status == "000":
        why = printable(done.err.strip() or "no answer")
        raise UserError([Problem(where=address, what=f"the request failed: {why}", hint="agent-sandbox proxy logs")])
    if mark:
        raise UserError([_denial(address, body)])
    accepted = int(status) not in REFUSED
    verdict = "" if accepted else f": it does not accept {bound.name}"
    say(f"{urlsplit(address).hostname} answers {status}{verdict}")
    return DONE if accepted else FIXABLE


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


def _denial(address: str, body: str) -> Problem:
    try:
        said = read_json(body)
        return Problem(where=address, what=printable(str(said["reason"])), hint=printable(str(said.get("hint", ""))))
    except (ValueError, LookupError, TypeError, AttributeError):
        return Problem(where=address, what="the proxy denies the request", hint="agent-sandbox proxy logs --denied")
