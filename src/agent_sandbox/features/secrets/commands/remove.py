"""`agent-sandbox secret remove NAME`."""

import os
from pathlib import Path
from typing import Annotated

from typer import Argument

from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.features.policy.layers import load_here
from agent_sandbox.features.secrets.login_sync import proxy_runs
from agent_sandbox.features.secrets.secret_binding import named_secrets, read_binding
from agent_sandbox.features.secrets.secret_store import ask_store, in_clones, secrets_of
from agent_sandbox.features.secrets.sources.all_recipes import shared_file, shared_recipes
from agent_sandbox.features.secrets.sources.recipes import recipes_of
from agent_sandbox.policytools.unset_secrets import wanted
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project

completions = named_secrets
Name = Annotated[str, Argument(help="The secret's name in the policy.")]


def remove(name: Name, *, path: ProjectPath = None) -> None:
    """Remove a secret. Requests that the policy allows only with this secret are denied from now on."""
    bound = read_binding(name, ())
    project = open_project(path, cwd=Path.cwd())
    had_source = recipes_of(project.root, os.environ).remove(bound.name)
    if any(one.name == bound.name for one in shared_recipes(project.root, os.environ)):
        hint = f"remove it from {shared_file(os.environ)}, then run this again"
        what = "your own file names it for this project, so it would be fetched again"
        raise UserError([Problem(where=bound.name, what=what, hint=hint)])
    if had_source and not proxy_runs(project):
        say(f"{bound.name} is removed and will not be fetched again")
    else:
        ask_store(project, "remove", bound.name)
        say(f"{bound.name} is removed: the proxy no longer injects it")
    in_clones(project, lambda own: _remove_from(own, bound.name), done=f"{bound.name} is removed from its clones, too")
    _report_needs(project, bound.name)


def _remove_from(clone: Project, name: str) -> None:
    recipes_of(clone.root, os.environ).remove(name)
    if any(one.name == name for one in secrets_of(clone)):
        ask_store(clone, "remove", name)


def _report_needs(project: Project, name: str) -> None:
    """Warn if the policy still names the secret. A policy that cannot be read is skipped."""
    try:
        needed = [one for one in wanted(load_here(project.policy, os.environ), ()) if one.secret == name]
    except UserError:
        return
    if needed:
        places = ", ".join(dict.fromkeys(one.place for one in needed))
        until = "so these requests are denied until it is set again or the policy changed"
        say(f"the policy still needs it ({places}), {until}")
