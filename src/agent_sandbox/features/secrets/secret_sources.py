"""Fetch secrets from their sources on the host machine, and give them to the proxy."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated

import typer

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.features.secrets.login_sync import agent_of, give_login, proxy_runs, tell_proxy
from agent_sandbox.features.secrets.secret_store import ask_store, in_clones
from agent_sandbox.features.secrets.sources.all_recipes import recipes_for
from agent_sandbox.features.secrets.sources.fetch import Host, fetch, split_source
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.features.secrets.sources.time_to_live import parse_ttl
from agent_sandbox.features.secrets.sources.value import MOST, Fetched, faults, without_line_end
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policytools.unset_secrets import Bound
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project import Project

Source = Annotated[
    str,
    typer.Option(
        "--from",
        help="Where to fetch the value, at each start and `secret sync`: a command, env:NAME, file:PATH or "
        "keyring:SERVICE/USERNAME.",
    ),
]


TimeToLive = Annotated[
    str,
    typer.Option(help="With --from: how long a fetched value is used, such as 30m, 8h or 7d.", metavar="TIME"),
]


IN_CLONES = "{} was set in its clones, too"


def store(project: Project, secret: Bound, source: str, ttl: str = "") -> bool:
    """Store a secret from its source, or from stdin if it has none; return whether the proxy has it now.

    A source is tried first. If the proxy does not run, the source is remembered for the next start. The project's
    clones get the secret, too.
    """
    seconds = _seconds(ttl, source)
    if not source:
        value = cache(lambda: read_value(secret.name))
        _put(project, secret, value)
        in_clones(project, lambda own: _put(own, secret, value), done=IN_CLONES.format(secret.name))
        return True
    recipe = Recipe(name=secret.name, hosts=secret.hosts, source=source, ttl=seconds)
    found = fetched(project, recipe)
    is_there = _remember(project, recipe, found)
    in_clones(project, lambda own: _remember(own, recipe, found), done=IN_CLONES.format(secret.name))
    return is_there


def _put(project: Project, secret: Bound, value: Callable[[], bytes]) -> None:
    words = (word for one in secret.hosts for word in ("--host", one))
    ask_store(project, "set", secret.name, *words, stdin=value)
    recipes_of(project.root, os.environ).remove(secret.name)


def _remember(project: Project, recipe: Recipe, found: Fetched) -> bool:
    """Keep a source, and give the value to the proxy if it runs; return whether it does."""
    recipes_of(project.root, os.environ).add(recipe)
    runs = proxy_runs(project)
    if runs:
        _hand_over(project, recipe, found)
    return runs


def _seconds(ttl: str, source: str) -> float | None:
    if not ttl:
        return None
    if not source:
        what, hint = "a value without a source cannot be fetched again", "use it with --from, or leave it out"
        raise UserError([Problem(where="--ttl", what=what, hint=hint)])
    try:
        return parse_ttl(ttl)
    except InvalidValue as invalid:
        raise UserError([Problem(where="--ttl", what=invalid.what, hint=invalid.hint)]) from invalid


def give(project: Project, recipe: Recipe, *, keeps: bool = False) -> float | None:
    """Fetch the value and give it to the running proxy; if that fails, the proxy drops the previous value.

    Return the seconds until it expires, None if it does not. With `keeps`, the previous value stays until it expires.
    """
    if agent_of(recipe.source):
        return give_login(project, recipe).left(time.time())
    try:
        found = fetched(project, recipe)
    except UserError:
        if not keeps:
            tell_proxy(project, recipe, "--unresolved")
        raise
    return _hand_over(project, recipe, found)


def _hand_over(project: Project, recipe: Recipe, found: Fetched) -> float | None:
    """Give a value to the running proxy; return the seconds until it expires, None if it does not."""
    left = min((one for one in (recipe.ttl, found.left) if one is not None), default=None)
    ttl = () if left is None else ("--ttl", f"{left:.0f}")
    tell_proxy(project, recipe, "--source", split_source(recipe.source)[0], *ttl, stdin=found.value)
    return left


def fetched(project: Project, recipe: Recipe) -> Fetched:
    """Return the value of the secret, or raise UserError."""
    return fetch(recipe.name, recipe.source, Host(root=project.root, environ=os.environ))


def sync(project: Project, *, give: Callable[[Project, Recipe], object] = give) -> tuple[int, list[Problem]]:
    """Fetch all secrets that have a source; return how many there are, and the problems.

    `give` fetches one and gives it to the proxy.
    """
    recipes = recipes_for(project.root, os.environ)
    problems = list(_problems(project, recipes, give))
    return len(recipes), problems


def sync_after_start(project: Project) -> None:
    """Fetch all secrets that have a source. A problem does not end the command: the stack runs without the secret."""
    try:
        _, problems = sync(project)
    except UserError as error:
        problems = list(error.problems)
    for problem in problems:
        say(f"warning: {problem}")


def _problems(
    project: Project, recipes: tuple[Recipe, ...], give: Callable[[Project, Recipe], object]
) -> Iterator[Problem]:
    for recipe in recipes:
        try:
            give(project, recipe)
        except UserError as error:
            yield from error.problems


def read_value(name: str) -> bytes:
    """Return the secret's value, or raise UserError with all problems."""
    value = _typed(name) if sys.stdin.isatty() else _piped()
    problems = [Problem(where=name, what=what, hint=hint) for what, hint in _faults(value)]
    if problems:
        raise UserError(problems)
    return value


def _faults(value: bytes) -> Iterator[tuple[str, str]]:
    if not value:
        yield "the value is empty", "pipe it in, or run this at a terminal, which asks for it"
        return
    yield from faults(value)


def _piped() -> bytes:
    """Return stdin without one trailing line end, which most programs print."""
    return without_line_end(sys.stdin.buffer.read(MOST + len(b"\r\n") + 1))


def _typed(name: str) -> bytes:
    try:
        value: str = typer.prompt(f"value of {name}", hide_input=True, err=True)
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    return value.encode(errors="surrogateescape")
