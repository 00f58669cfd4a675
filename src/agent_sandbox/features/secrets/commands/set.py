"""`agent-sandbox secret set NAME --host HOST`."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.features.policy.file import shown
from agent_sandbox.features.policy.layers import load_here
from agent_sandbox.features.secrets.secret_binding import named_secrets, read_binding
from agent_sandbox.features.secrets.secret_sources import Source, TimeToLive, store
from agent_sandbox.features.trust.trust_gate import open_known
from agent_sandbox.policytools.unset_secrets import Bound, unheard
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project import Project

# Accepted here only to be rejected below: typer's own error would print the value.
CONTEXT = {"allow_extra_args": True}
completions = named_secrets
Name = Annotated[str, Argument(help="The secret's name in the policy.")]
Hosts = Annotated[
    list[str],
    Option(help="A host that the secret may be sent to, by its exact name; may be repeated."),
]


def set(  # noqa: A001, PLR0913 - its name, and its options
    context: Context,
    name: Name,
    *,
    host: Hosts,
    source: Source = "",
    ttl: TimeToLive = "",
    path: ProjectPath = None,
) -> None:
    """Store a secret and bind it to hosts. The value comes from stdin, or you are asked for it.

    With `--from`, only the source is stored, on this machine. Setting a secret again replaces its value and its hosts.
    """
    if context.args:
        what = "the value cannot be an argument: it would stay in your shell history"
        raise UserError([Problem(where=name, what=what, hint="pipe it in, or leave it out to be asked for it")])
    bound = read_binding(name, host)
    project = open_known(path, cwd=Path.cwd())
    if not store(project, bound, source, ttl):
        say(f"{bound.name} will be fetched from its source by agent-sandbox up")
        return
    _report(project, bound)


def _report(project: Project, bound: Bound) -> None:
    say(f"{bound.name} is now injected into requests to {', '.join(bound.hosts)} where the policy says so")
    with suppress(UserError):  # other commands report an invalid policy
        for line in unheard(load_here(shown(project.policy, cwd=Path.cwd()), os.environ), bound):
            say(line)
