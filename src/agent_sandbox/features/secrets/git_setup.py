"""Let the sandbox use the project's repositories on a git server, with a token that only the proxy has."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.cli.terminal.question import agrees
from agent_sandbox.features.policy.edit import put, put_options
from agent_sandbox.features.policy.file import shown
from agent_sandbox.features.proxy.reload_policy import take_effect
from agent_sandbox.features.proxy.secrets import held_secrets
from agent_sandbox.features.secrets.git_repositories import (
    GIT,
    REPOSITORIES,
    WRITE,
    Server,
    Wanted,
    bound_hosts,
    options_for,
    secret_of,
    server_of,
    wanted_repositories,
)
from agent_sandbox.features.secrets.login_sync import proxy_runs
from agent_sandbox.features.secrets.secret_sources import store
from agent_sandbox.features.secrets.sources.fetch import APP, split_source
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.features.stack.execute import driver
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.file.service_options import Access, Declared, repository_name
from agent_sandbox.policyfile import load_layer, services_beside
from agent_sandbox.policyfile.layer_file import PROJECT, LayerFile
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.policytools.unset_secrets import Bound
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.paths import PROJECT_FILE

ACCESS_TEXT = {"read": "read only", "readwrite": "read and write"}
NO_PUSHES = ("POST https://*/**/git-receive-pack", "POST http://*/**/git-receive-pack")


class GitSetup(Struct, frozen=True, kw_only=True):
    """The options of the user; without `written` and `read`, the project's git settings name the repositories."""

    written: Sequence[str]
    read: Sequence[str]
    read_only: bool
    source: str


def git_services_beside(policy: Path) -> Mapping[str, Declared]:
    """Return the options of the services of git servers that take a token and that this policy can name."""
    return {
        name: layer.spec.declared
        for name, layer in services_beside(policy).items()
        if isinstance(git := layer.spec.declared.get(GIT), Access) and git.auth
    }


def git_tests(policy: Path) -> dict[str, tuple[str, str]]:
    """Return a harmless request for each secret of a git server, as host and path: the start of a fetch."""
    found = {}
    for service, declared in git_services_beside(policy).items():
        entry = _entry(policy, service)
        names = [repository_name(one) for one in entry.get(REPOSITORIES, ())]
        if names and (secret := secret_of(entry)):
            found[secret] = (server_of(declared).host, f"/{names[0]}.git/info/refs?service=git-upload-pack")
    return found


def set_up_git(project: Project, service: str, asked: GitSetup, *, path: Path | None) -> None:
    """Store the token, have the policy inject it for the repositories alone, and print what the sandbox may do."""
    declared = git_services_beside(project.policy)[service]
    server = server_of(declared)
    wanted = wanted_repositories(
        project.root, server, asked.written, asked.read, project_file=project.made_of.get(PROJECT_FILE, "")
    )
    if asked.read_only:
        wanted = tuple(Wanted(name=one.name, access="read", where=one.where) for one in wanted)
    entry = _entry(project.policy, service)
    secret = secret_of(entry) or f"{service}.token"
    options = options_for(declared, entry, wanted, secret)
    for one in wanted:
        say(f"{ACCESS_TEXT[one.access]}: {one.name} ({one.where})")
    if entry and REPOSITORIES not in entry:
        say(
            f"careful: the policy allows all repositories of {server.host} now, and will allow only those that it names"
        )
    if not asked.written and not asked.read:
        _confirm()
    bound = Bound(name=secret, hosts=bound_hosts(declared, {**entry, **options}, secret))
    is_there = _stored(project, bound, _source(project, bound, asked.source, server, wanted))
    policy = shown(project.policy, cwd=Path.cwd())
    put_options(service, options, policy)
    if asked.read_only:
        for line in NO_PUSHES:
            put(read_short_rule(Effect.DENY, (line,)), policy)
    take_effect(project, secret, path, is_stored=is_there)
    say(f"the proxy sends {secret} to {' and '.join(bound.hosts)}, only for the repositories that the policy names")


def _confirm() -> None:
    """Ask at a terminal whether the sandbox may have the repositories of git's settings; raise UserError if not.

    The agent could have changed the settings while they were not protected.
    """
    if not sys.stdin.isatty():
        return
    if not agrees("Allow this?"):
        hint = "name the repositories with --repo owner/name and --read owner/name"
        raise UserError([Problem(where="git", what="nothing was changed", hint=hint)])


def _entry(policy: Path, service: str) -> dict[str, Any]:
    """Return the service's entry in the policy file, empty if there is none."""
    own = load_layer(LayerFile(name=PROJECT, path=policy), services=services_beside(policy))
    return next((one.model_dump(exclude_unset=True) for one in own.spec.services if one.name == service), {})


def _source(project: Project, bound: Bound, asked: str, server: Server, wanted: Sequence[Wanted]) -> str:
    """Return the source to store, "" for none: the one of an app also names the repositories.

    Not those that the policy names already: others may have written it.
    """
    recipe = _recipe_of(project, bound)
    source = asked or (recipe.source if recipe else "")
    if split_source(source)[0] != APP:
        return asked
    from agent_sandbox.features.secrets.sources.github_app import HOST, NoTokenError, parse_app  # noqa: PLC0415 - few have one

    try:
        app = parse_app(split_source(source)[1])
    except NoTokenError as error:
        raise UserError([Problem(where="--from", what=str(error), hint=error.hint)]) from error
    if server.host != HOST:
        what = f"an app of {HOST} gives no token for {server.host}"
        raise UserError([Problem(where="--from", what=what, hint="create a token there")])
    written = [one.name for one in wanted if one.access == WRITE]
    app = app.with_more(written, [one.name for one in wanted if one.access != WRITE])
    for one in wanted:
        if one.name not in app.repositories:
            say(f"note: the token of this app reads {one.name} only if it is public: it is of another account")
    meant = str(app)
    return "" if recipe and recipe.source == meant else meant


def _recipe_of(project: Project, bound: Bound) -> Recipe | None:
    return next((one for one in recipes_of(project.root, os.environ).load() if one.name == bound.name), None)


def _stored(project: Project, bound: Bound, source: str) -> bool:
    """Store the secret unless it is set already; return whether the proxy has it now."""
    recipe = _recipe_of(project, bound)
    runs = proxy_runs(project)
    if not source and recipe and {*bound.hosts} <= {*recipe.hosts}:
        return runs
    if not source and recipe:
        _require_own(bound, recipe)
        return store(project, bound, recipe.source)
    if not source and runs and _is_held(project, bound):
        say(f"{bound.name} is set already; agent-sandbox secret set replaces it")
        return True
    return store(project, bound, source)


def _require_own(bound: Bound, recipe: Recipe) -> None:
    """Raise UserError if the policy names a secret that is for other servers: someone else may have written it."""
    if not {*bound.hosts} & {*recipe.hosts}:
        what = f"the policy gives this secret to git, but it is for {', '.join(recipe.hosts)}"
        hint = "name another one in the policy, or say with --from where its value is from"
        raise UserError([Problem(where=bound.name, what=what, hint=hint)])


def _is_held(project: Project, bound: Bound) -> bool:
    held = held_secrets(driver(), project)
    return any(one.name == bound.name and {*bound.hosts} <= {*one.hosts} for one in held)
