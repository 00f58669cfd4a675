"""Let the sandbox read private packages of the registry that npm uses on this machine; only the proxy has the token."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent_sandbox.backends.project import Project
from agent_sandbox.cli.steps.policy.policy_edit import put_values
from agent_sandbox.cli.steps.policy.policy_file import shown
from agent_sandbox.cli.steps.secrets.secret_sources import store, take_effect
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.detect import place_of
from agent_sandbox.policytools.unset_secrets import Bound
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.policies.registries import npm_registry, this_machine

SERVICE, SECRET, VARIABLE = "npm", "npm.token", "NPM_TOKEN"
HTTPS_PORT = 443


def set_up_npm(project: Project, source: str, ttl: str, *, path: Path | None) -> None:
    """Store the token, and have the policy inject it into requests that read packages."""
    host, port, below = _registry(project)
    is_there = store(project, Bound(name=SECRET, hosts=(host,)), source, ttl)
    entry = _entry(host, port, below)
    put_values({"domains": [entry]}, f"under `domains`: {host}", shown(project.policy, cwd=Path.cwd()))
    take_effect(project, SECRET, path, is_stored=is_there, how="injects it")
    say(f"the proxy sends {SECRET} to {host}{below}, to read; in the sandbox, {VARIABLE} holds a placeholder for it")


def _registry(project: Project) -> tuple[str, int, str]:
    """Return host, port and path of npm's registry, as npm on this machine names it, whatever the project says."""
    url = npm_registry(this_machine(os.environ, project=project.root))
    scheme, host, port = next(iter(place_of(url)), ("", "", None))
    if scheme != "https":
        what = f"npm's registry is {scheme}://{host}" if host else "npm on this machine names no registry"
        hint = "npm config set registry https://..., or add the entry by hand: agent-sandbox secret set --help"
        raise UserError([Problem(where=SERVICE, what=what, hint=hint)])
    return host, port or HTTPS_PORT, f"/{urlsplit(url).path.strip('/')}"


def _entry(host: str, port: int, path: str) -> dict[str, Any]:
    """Return the entry of the policy: the host of a registry below a path may serve much else."""
    credential = {
        "secret": SECRET,
        "transform": {"type": "bearer"},
        "client_shim": {"kind": "env", "name": VARIABLE, "prefix": "npm_"},
    }
    return {
        "host": host,
        "ports": [port],
        "encoded_slash": True,  # npm asks for @scope%2Fname
        "transform": {"request": {"headers": {"Authorization": credential}}},
        "rules": [{"methods": ["GET", "HEAD"], **({"path": {"prefix": path}} if path != "/" else {})}],
    }
