"""`agent-sandbox secret list`."""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.counted import times
from agent_sandbox.features.policy.file import shown
from agent_sandbox.features.policy.layers import load_here
from agent_sandbox.features.proxy.decisions import local_time
from agent_sandbox.features.proxy.secrets import Held
from agent_sandbox.features.secrets.secret_store import secrets_of
from agent_sandbox.features.secrets.sources.all_recipes import recipes_for
from agent_sandbox.features.secrets.sources.recipes import Recipe
from agent_sandbox.host.agents import known_agents, load_manifest
from agent_sandbox.policytools.unset_secrets import Wanted, kinds_of, wanted
from agent_sandbox.project.installed import open_project

type Kinds = Mapping[str, tuple[str, ...]]
type Sources = Mapping[str, str]
UNUSED = "unused"
# Of a secret that the proxy gets from its source at the next start.
NOT_FETCHED = "not fetched yet"
# How the names of sign-ins end.
LOGIN = ".login"


def list(*, path: ProjectPath = None, json: Json = False) -> None:  # noqa: A001 - the command's name
    """List the secrets with hosts, kind, source and use, and those that the policy needs but are not set.

    No command shows a value.
    """
    project = open_project(path, cwd=Path.cwd())
    recipes = recipes_for(project.root, os.environ)
    secrets = _all(secrets_of(project), recipes)
    policy = load_here(shown(project.policy, cwd=Path.cwd()), os.environ)
    missing, kinds = [_with_login(one) for one in wanted(policy, secrets)], kinds_of(policy)
    sources = {one.name: one.source for one in recipes}
    if json:
        emit_json(as_json(secrets, missing, kinds, sources))
        return
    if not secrets:
        say("no secret is set")
    emit_lines(as_text(secrets, missing, kinds, sources))


def _all(held: Sequence[Held], recipes: Sequence[Recipe]) -> Sequence[Held]:
    """Return the secrets in the proxy, and those that it gets at the next start, sorted by name."""
    names = {one.name for one in held}
    coming = (one for one in recipes if one.name not in names)
    later = (Held(name=one.name, hosts=one.hosts, problem=NOT_FETCHED) for one in coming)
    return sorted((*held, *later), key=lambda one: one.name)


def _with_login(wish: Wanted) -> Wanted:
    """Return the wish with the command that shares a sign-in, if the secret is one."""
    if not wish.secret.endswith(LOGIN):
        return wish
    logins = {login.secret: name for name in known_agents() if (login := load_manifest(name).login)}
    agent = logins.get(wish.secret)
    return replace(wish, how=f"agent-sandbox login {agent}") if agent else wish


def as_text(secrets: Sequence[Held], missing: Sequence[Wanted], kinds: Kinds, sources: Sources) -> Iterator[str]:
    """Yield one line per secret, then the missing ones."""
    rows = [(one.name, ", ".join(one.hosts), _used(kinds, one), _about(sources, one)) for one in secrets]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        name, *rest = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield styled((name, "title"), f"  {'  '.join(rest)}".rstrip())
    yield from ("",) if secrets and missing else ()
    for wish in missing:
        text, command = str(wish).removesuffix(wish.command), wish.command
        yield styled(text, (command, "command"))


def _used(kinds: Kinds, secret: Held) -> str:
    return ", ".join(kinds.get(secret.name, (UNUSED,)))


def _about(sources: Sources, secret: Held) -> str:
    """Return where a value is from, why there is none, until when it is used, and when it was used."""
    source = sources.get(secret.name, "")
    uses = f"used {times(secret.uses)}, last {_shown(secret.last_use)}" if secret.last_use else "never used"
    parts = (
        f"from {source}" if source else "",
        f"no value now: {secret.problem}" if secret.problem else "",
        f"expires {_shown(secret.expires)}" if secret.expires else "",
        uses,
    )
    return "; ".join(filter(None, parts))


def _shown(time: datetime | None) -> str:
    return local_time(time.isoformat()) if time else ""


def as_json(secrets: Sequence[Held], missing: Sequence[Wanted], kinds: Kinds, sources: Sources) -> dict[str, object]:
    """Return the secrets and the missing ones as JSON."""
    return {
        "secrets": [
            {
                "name": one.name,
                "hosts": one.hosts,
                "kinds": kinds.get(one.name, ()),
                "source": sources.get(one.name, ""),
                "problem": one.problem,
                "expires": one.expires and one.expires.isoformat(),
                "uses": one.uses,
                "last_use": one.last_use and one.last_use.isoformat(),
            }
            for one in secrets
        ],
        "wanted": [
            {"secret": one.secret, "host": one.host, "rule": one.rule, "command": one.command} for one in missing
        ],
    }
