"""Give a login of the host machine to the proxy, and its placeholders to the agent container."""

import os
import time

from agent_sandbox.agents.home import HOME
from agent_sandbox.agents.login import Login
from agent_sandbox.bounded_json import read_json
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.engines.place import Role
from agent_sandbox.features.proxy.control import OTHER, tell_secrets
from agent_sandbox.features.secrets.sources.fetch import Host
from agent_sandbox.features.secrets.sources.login_document import (
    HostLogin,
    UnknownShapeError,
    expiry_of,
    for_proxy,
    for_sandbox,
    has_placeholders,
    is_signed_in,
)
from agent_sandbox.features.secrets.sources.login_host import NoLoginError, current_login, login_file
from agent_sandbox.features.secrets.sources.recipes import Recipe
from agent_sandbox.features.stack.execute import driver, is_running
from agent_sandbox.host.agents import known_agents, load_manifest
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project import Project

SOURCE = "login:"
SECONDS = 30.0
# As `dev`: all that the agent could do to these files, it could do anyway.
READ = ("sh", "-c", '[ ! -f "$1" ] || head -c 65536 -- "$1"', "sh")
WRITE = (
    *("sh", "-c", 'umask 077 && mkdir -p -- "${1%/*}" && cat >"$1.new" && mv -f -- "$1.new" "$1"'),
    "sh",
)


def agent_of(source: str) -> str:
    """Return the agent whose login is the source, or an empty string."""
    return source.removeprefix(SOURCE) if source.startswith(SOURCE) else ""


def login_of(agent: str) -> Login:
    """Return how an agent keeps its login, or raise UserError."""
    login = load_manifest(agent).login
    if login is None:
        able = ", ".join(name for name in known_agents() if load_manifest(name).login)
        what, hint = f"{agent} has no login that can be shared", f"agents with one: {able}; for keys: secret setup"
        raise UserError([Problem(where="AGENT", what=what, hint=hint)])
    return login


def host_of(project: Project) -> Host:
    """Return the host machine, as sources are fetched there."""
    return Host(root=project.root, environ=os.environ)


def give_login(project: Project, recipe: Recipe, *, replace: bool = False) -> HostLogin:
    """Give the running proxy the current access token, and the sandbox the placeholders.

    If there is no token, the proxy drops the previous one. With `replace`, a sign-in of the sandbox's own is replaced.
    """
    login, host = login_of(agent_of(recipe.source)), host_of(project)
    try:
        found = current_login(login, host)
    except (NoLoginError, UserError) as error:
        tell_proxy(project, recipe, "--login", stdin=for_proxy(login, None, now=time.time()))
        if isinstance(error, UserError):
            raise
        raise UserError([no_login(login, host)]) from error
    said = tell_proxy(project, recipe, "--login", stdin=for_proxy(login, found, now=time.time()))
    try:
        placeholders = {str(role): str(text) for role, text in read_json(said).items()}
        _seed(project, login, found, placeholders, replace=replace)
    except UnknownShapeError as error:
        raise UserError(
            [Problem(where=str(login_file(login, host)), what=f"not shown to the sandbox: {error}")]
        ) from error
    except (ValueError, AttributeError, KeyError) as error:
        raise UserError([OTHER]) from error
    return found


def no_login(login: Login, host: Host) -> Problem:
    """Return the problem that the user is not signed in on this machine."""
    command = " ".join(login.sign_in)
    hint = f"run `{command}` on this machine, then agent-sandbox login; or sign in inside the sandbox"
    return Problem(where=str(login_file(login, host)), what="you are not signed in on this machine", hint=hint)


def tell_proxy(project: Project, recipe: Recipe, *how: str, stdin: bytes = b"") -> str:
    """Have the running proxy store what is on stdin; return what it prints."""
    hosts = (word for host in recipe.hosts for word in ("--host", host))
    return tell_secrets(driver(), project, "set", recipe.name, *hosts, *how, stdin=stdin)


def proxy_runs(project: Project) -> bool:
    """Return whether the project's proxy runs."""
    return is_running(project, "proxy")


def _seed(project: Project, login: Login, found: HostLogin, placeholders: dict[str, str], *, replace: bool) -> None:
    """Write the credential file of the agent container, unless it is current or has a sign-in of its own."""
    if not is_running(project, "agent"):
        return
    path = f"{HOME}/{login.file}"
    before = _in_agent(project, (*READ, path)).encode()
    own = is_signed_in(login, before) and not has_placeholders(login, before, placeholders)
    if own and not replace:
        say(f"note: the sandbox has its own sign-in in ~/{login.file}; agent-sandbox login replaces it")
        return
    if has_placeholders(login, before, placeholders) and expiry_of(login, before) >= (found.expires or 0.0):
        return
    _in_agent(project, (*WRITE, path), stdin=for_sandbox(login, found, placeholders, before).encode())


def _in_agent(project: Project, argv: tuple[str, ...], *, stdin: bytes = b"") -> str:
    command = driver().spawn(Role(project=project, service="agent"), *argv, stdin=True)
    done = command.capture(timeout=SECONDS, stdin=stdin)
    if done.code != 0:
        raise UserError([driver().explain(done.last_line, doing="writing the credential file")])
    return done.out
