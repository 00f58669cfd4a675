"""`agent-sandbox secret list`."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_sandbox.backends.verbs import AskSecrets
from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.steps.execute import backend, driver, require_running
from agent_sandbox.cli.steps.policy_file import shown
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.policytools.unset_secrets import Bound, Wanted, wanted
from agent_sandbox.runtime.policies.layers import load_here
from agent_sandbox.runtime.project.installed import open_project
from agent_sandbox.runtime.proxy.secrets import held_secrets


def list(*, path: ProjectPath = None, json: Json = False) -> None:  # noqa: A001 - the command's name
    """List the secrets and their hosts, and those that the policy uses but are not set. No value is shown."""
    project = open_project(path, cwd=Path.cwd())
    require_running(project, "proxy")
    secrets = held_secrets(driver(), backend().plan(project, AskSecrets(argv=("list",))))
    missing = wanted(load_here(shown(project.policy, cwd=Path.cwd()), os.environ), secrets)
    if json:
        emit_json(as_json(secrets, missing))
        return
    if not secrets:
        say("no secret is set")
    emit_lines(as_text(secrets, missing))


def as_text(secrets: Sequence[Bound], missing: Sequence[Wanted]) -> Iterator[str]:
    """Yield one line per secret, then the missing ones."""
    width = max((len(one.name) for one in secrets), default=0)
    for one in secrets:
        yield styled((f"{one.name:<{width}}", "title"), f"  {', '.join(one.hosts)}")
    yield from ("",) if secrets and missing else ()
    for wish in missing:
        text, command = str(wish).removesuffix(wish.command), wish.command
        yield styled(text, (command, "command"))


def as_json(secrets: Sequence[Bound], missing: Sequence[Wanted]) -> dict[str, object]:
    """Return the secrets and the missing ones as JSON."""
    return {
        "secrets": [{"name": one.name, "hosts": one.hosts} for one in secrets],
        "wanted": [
            {"secret": one.secret, "host": one.host, "rule": str(one.origin), "command": one.command} for one in missing
        ],
    }
