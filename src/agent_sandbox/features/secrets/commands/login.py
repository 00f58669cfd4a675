"""`agent-sandbox login [AGENT]`."""

import os
import sys
import time
from pathlib import Path
from typing import Annotated

from typer import Argument

from agent_sandbox.agents.login import Login
from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.features.policy.edit import put_options
from agent_sandbox.features.proxy.reload_policy import reload_stack, report
from agent_sandbox.features.secrets.keyed_services import named_secret
from agent_sandbox.features.secrets.login_sync import SOURCE, give_login, host_of, login_of, no_login, proxy_runs
from agent_sandbox.features.secrets.sources.fetch import Host, NoValueError, find_program
from agent_sandbox.features.secrets.sources.login_document import HostLogin
from agent_sandbox.features.secrets.sources.login_host import NoLoginError, current_login
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.features.trust.trust_gate import open_known
from agent_sandbox.host.agents import known_agents, load_manifest
from agent_sandbox.host.process import attend
from agent_sandbox.host.program_path import program_path
from agent_sandbox.policyfile import load_layer, services_beside
from agent_sandbox.policyfile.layer_file import PROJECT, LayerFile
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project import Project

Agent = Annotated[str, Argument(help="The agent; by default the project's.")]
OPTION, KEY = "login", "secret"
HOUR = 3600


def completions(*before: str) -> tuple[str, ...]:
    """Return the agents whose login can be shared, for shell completion."""
    return () if before else tuple(name for name in known_agents() if load_manifest(name).login)


def login(agent: Agent = "", *, path: ProjectPath = None) -> None:
    """Share an agent's sign-in on this machine with the sandbox, where the agent gets placeholders for its tokens.

    If you are not signed in, this runs the sign-in command of the agent's client on this machine. Only that client
    refreshes the sign-in.
    """
    project = open_known(path, cwd=Path.cwd())
    name = agent or project.agents[0]
    wanted = login_of(name)
    secret = _named(project, wanted) or wanted.secret
    found = _signed_in(wanted, host_of(project))
    recipe = Recipe(name=secret, hosts=wanted.hosts, source=f"{SOURCE}{name}")
    recipes_of(project.root, os.environ).add(recipe)
    runs = proxy_runs(project)
    if runs:
        give_login(project, recipe, replace=True)
    if not _named(project, wanted):
        put_options(wanted.service, {OPTION: secret}, project.policy)
    if runs:
        report(reload_stack(path), unchanged=f"{secret} was replaced; the policy injects it already")
    say(f"{name}: {_described(found)}; the proxy sends it to {', '.join(wanted.hosts)}, the sandbox has placeholders")
    if not runs:
        say("agent-sandbox up passes it on")


def _named(project: Project, wanted: Login) -> str:
    """Return the name of the secret that the policy gives the service already, or an empty string."""
    own = load_layer(LayerFile(name=PROJECT, path=project.policy), services=services_beside(project.policy))
    if key := named_secret(own, wanted.service, KEY):
        what = f"the service {wanted.service} has an API key in the policy (`{KEY}: {key}`)"
        hint = f"remove `{KEY}` there, then run this again: a request cannot carry both"
        raise UserError([Problem(where=str(project.policy), what=what, hint=hint)])
    return named_secret(own, wanted.service, OPTION)


def _signed_in(wanted: Login, host: Host) -> HostLogin:
    try:
        return current_login(wanted, host)
    except NoLoginError:
        _sign_in(wanted, host)
    try:
        return current_login(wanted, host)
    except NoLoginError as error:
        raise UserError([no_login(wanted, host)]) from error


def _sign_in(wanted: Login, host: Host) -> None:
    """Run the client's own sign-in on this terminal. Its browser and its callback stay on this machine."""
    command = " ".join(wanted.sign_in)
    try:
        program = find_program(wanted.sign_in[0], host)
    except NoValueError as error:
        raise UserError([Problem(where=command, what=str(error), hint=error.hint)]) from error
    if program is None:
        hint = f"install {wanted.sign_in[0]} on this machine and run `{command}`, or sign in inside the sandbox"
        what = f"you are not signed in on this machine, and {wanted.sign_in[0]} is not installed"
        raise UserError([Problem(where=command, what=what, hint=hint)])
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserError([no_login(wanted, host)])
    say(f"you are not signed in on this machine: starting `{command}`")
    path = {"PATH": program_path(host.environ, project=host.root)}
    attend((program, *wanted.sign_in[1:]), cwd=Path.home(), environment=path)


def _described(found: HostLogin) -> str:
    left = found.left(time.time())
    plan = f", plan {found.plan}" if found.plan else ""
    valid = (
        ""
        if left is None
        else f", valid for {left / HOUR:.0f} h"
        if left >= HOUR
        else f", valid for {left / 60:.0f} min"
    )
    return f"the login of this machine{plan}{valid}"
