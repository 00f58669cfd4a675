"""`agent-sandbox secret list`."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent_sandbox.backends.verbs import AskSecrets
from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.steps.execute import backend, driver, require_running
from agent_sandbox.cli.steps.policy.policy_file import shown
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.policytools.unset_secrets import Bound, Wanted, kinds_of, wanted
from agent_sandbox.runtime.policies.layers import load_here
from agent_sandbox.runtime.project.installed import open_project
from agent_sandbox.runtime.proxy.secrets import held_secrets
from agent_sandbox.runtime.sources.recipes import recipes_of

type Kinds = Mapping[str, tuple[str, ...]]
type Sources = Mapping[str, str]
UNUSED = "unused"


def list(*, path: ProjectPath = None, json: Json = False) -> None:  # noqa: A001 - the command's name
    """List the secrets with hosts, kind and source, and those that the policy uses but are not set. Never a value."""
    project = open_project(path, cwd=Path.cwd())
    require_running(project, "proxy")
    secrets = held_secrets(driver(), backend().plan(project, AskSecrets(argv=("list",))))
    policy = load_here(shown(project.policy, cwd=Path.cwd()), os.environ)
    missing, kinds = wanted(policy, secrets), kinds_of(policy)
    sources = {one.name: one.source for one in recipes_of(project.root, os.environ).load()}
    if json:
        emit_json(as_json(secrets, missing, kinds, sources))
        return
    if not secrets:
        say("no secret is set")
    emit_lines(as_text(secrets, missing, kinds, sources))


def as_text(secrets: Sequence[Bound], missing: Sequence[Wanted], kinds: Kinds, sources: Sources) -> Iterator[str]:
    """Yield one line per secret, then the missing ones."""
    rows = [(one.name, ", ".join(one.hosts), _used(kinds, one), _origin(sources, one)) for one in secrets]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        name, *rest = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield styled((name, "title"), f"  {'  '.join(rest)}".rstrip())
    yield from ("",) if secrets and missing else ()
    for wish in missing:
        text, command = str(wish).removesuffix(wish.command), wish.command
        yield styled(text, (command, "command"))


def _used(kinds: Kinds, secret: Bound) -> str:
    return ", ".join(kinds.get(secret.name, (UNUSED,)))


def _origin(sources: Sources, secret: Bound) -> str:
    source = sources.get(secret.name, "")
    problem = f"no value now: {secret.problem}" if secret.problem else ""
    return "; ".join(filter(None, (f"from {source}" if source else "", problem)))


def as_json(secrets: Sequence[Bound], missing: Sequence[Wanted], kinds: Kinds, sources: Sources) -> dict[str, object]:
    """Return the secrets and the missing ones as JSON."""
    return {
        "secrets": [
            {
                "name": one.name,
                "hosts": one.hosts,
                "kinds": kinds.get(one.name, ()),
                "source": sources.get(one.name, ""),
                "problem": one.problem,
            }
            for one in secrets
        ],
        "wanted": [
            {"secret": one.secret, "host": one.host, "rule": str(one.origin), "command": one.command} for one in missing
        ],
    }
