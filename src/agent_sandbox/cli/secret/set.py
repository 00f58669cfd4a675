"""`agent-sandbox secret set NAME --host HOST`."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from agent_sandbox.backends.verbs import AskSecrets
from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.steps.execute import backend, driver, require_running
from agent_sandbox.cli.steps.policy_file import shown
from agent_sandbox.cli.steps.secret_binding import named_secrets, read_binding
from agent_sandbox.cli.steps.secret_value import read_value
from agent_sandbox.cli.steps.trust_gate import open_known
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.policytools.unset_secrets import unheard
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.policies.layers import load_here
from agent_sandbox.runtime.proxy.control import tell_stack

# Accepted here only to be rejected below: typer's own error would print the value.
CONTEXT = {"allow_extra_args": True}
Name = Annotated[str, typer.Argument(help="The secret's name in the policy.", metavar="NAME", show_default=False)]
Hosts = Annotated[
    list[str],
    typer.Option(
        "--host", help="A host that the secret may be sent to, by its exact name; may be repeated.", metavar="HOST"
    ),
]


def completions(*before: str) -> tuple[str, ...]:
    """Return the secrets that the policy names, for shell completion."""
    return () if before else named_secrets(Path.cwd())


def set(context: typer.Context, name: Name, *, host: Hosts, path: ProjectPath = None) -> None:  # noqa: A001 - its name
    """Store a secret and bind it to hosts. The value comes from stdin, or you are asked for it.

    Setting it again replaces the value and the hosts.
    """
    if context.args:
        what = "the value cannot be an argument: it would stay in your shell history"
        raise UserError([Problem(where=name, what=what, hint="pipe it in, or leave it out to be asked for it")])
    bound = read_binding(name, host)
    project = open_known(path, cwd=Path.cwd())
    require_running(project, "proxy")
    words = (word for one in bound.hosts for word in ("--host", one))
    plan = backend().plan(project, AskSecrets(argv=("set", bound.name, *words)))
    tell_stack(driver(), plan, stdin=read_value(bound.name))
    say(f"{bound.name} is now injected into requests to {', '.join(bound.hosts)} where the policy says so")
    with suppress(UserError):  # other commands report an invalid policy
        for line in unheard(load_here(shown(project.policy, cwd=Path.cwd()), os.environ), bound):
            say(line)
