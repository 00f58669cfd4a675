"""`agent-sandbox secret set NAME --host HOST`."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from agent_sandbox.backends.project import Project
from agent_sandbox.backends.verbs import AskSecrets
from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.steps.execute import backend, driver, require_running
from agent_sandbox.cli.steps.policy_file import shown
from agent_sandbox.cli.steps.secret_binding import named_secrets, read_binding
from agent_sandbox.cli.steps.secret_sources import fetched, give
from agent_sandbox.cli.steps.secret_value import read_value
from agent_sandbox.cli.steps.trust_gate import open_known
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.policytools.unset_secrets import Bound, unheard
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.policies.layers import load_here
from agent_sandbox.runtime.proxy.control import tell_stack
from agent_sandbox.runtime.sources.recipes import Recipe, Recipes, recipes_of

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


Source = Annotated[
    str,
    typer.Option(
        "--from",
        help="Where the value comes from, at each start and `secret sync`: a command, env:NAME, file:PATH or "
        "keyring:SERVICE/USERNAME.",
        metavar="SOURCE",
        show_default=False,
    ),
]


def set(  # noqa: A001 - its name
    context: typer.Context, name: Name, *, host: Hosts, source: Source = "", path: ProjectPath = None
) -> None:
    """Store a secret and bind it to hosts. The value comes from stdin, or you are asked for it.

    With `--from`, only its source is stored, on this machine. Setting it again replaces the value and the hosts.
    """
    if context.args:
        what = "the value cannot be an argument: it would stay in your shell history"
        raise UserError([Problem(where=name, what=what, hint="pipe it in, or leave it out to be asked for it")])
    bound = read_binding(name, host)
    project = open_known(path, cwd=Path.cwd())
    recipes = recipes_of(project.root, os.environ)
    if source:
        _set_source(project, recipes, Recipe(name=bound.name, hosts=bound.hosts, source=source))
        return
    require_running(project, "proxy")
    words = (word for one in bound.hosts for word in ("--host", one))
    plan = backend().plan(project, AskSecrets(argv=("set", bound.name, *words)))
    tell_stack(driver(), plan, stdin=read_value(bound.name))
    recipes.remove(bound.name)
    _report(project, bound)


def _set_source(project: Project, recipes: Recipes, recipe: Recipe) -> None:
    """Try the source, remember it, and give its value to the proxy if that runs."""
    fetched(project, recipe)
    recipes.add(recipe)
    if not any(one.service == "proxy" and one.state == "running" for one in driver().observe(project.name)):
        say(f"{recipe.name} will be fetched from its source by agent-sandbox up")
        return
    give(project, recipe)
    _report(project, Bound(name=recipe.name, hosts=recipe.hosts))


def _report(project: Project, bound: Bound) -> None:
    say(f"{bound.name} is now injected into requests to {', '.join(bound.hosts)} where the policy says so")
    with suppress(UserError):  # other commands report an invalid policy
        for line in unheard(load_here(shown(project.policy, cwd=Path.cwd()), os.environ), bound):
            say(line)
