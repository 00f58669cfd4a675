"""`agent-sandbox agents [list | check NAME]`."""

import os
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct
from typer import Argument

from agent_sandbox.agents.manifest import AgentManifest
from agent_sandbox.cli.framework.errors import DONE, FIXABLE, INTERRUPTED
from agent_sandbox.cli.framework.options import DryRun, ExtraCa, Json, NoCache, Quiet
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say, say_problems, short_path
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.features.stack.execute import backend, driver, execute
from agent_sandbox.features.stack.init.build_inputs import build_of, images_to_build
from agent_sandbox.features.usage.state_sizes import state_sizes
from agent_sandbox.host.agents import known_agents, known_versions, load_manifest, load_manifests, place_of
from agent_sandbox.host.user_dirs import state_directory
from agent_sandbox.policyfile import shipped_services
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.size_text import size_text

HEADINGS = ("NAME", "VERSION", "NEWEST", "FROM", "STATE", "TITLE")
USAGE = "agent-sandbox agents list | check NAME"


class Do(StrEnum):
    """An action on agents."""

    LIST = "list"
    CHECK = "check"


What = Annotated[Do, Argument(help="list, or check NAME.")]
Name = Annotated[str | None, Argument(help="The agent to check.")]


def completions(*before: str) -> tuple[str, ...]:
    """Return the actions, and the known agents for `check`, for shell completion."""
    match before:
        case ():
            return tuple(Do)
        case (Do.CHECK,):
            return known_agents()
    return ()


class Listed(Struct, frozen=True, kw_only=True):
    """An agent with the newest version that is known, and the bytes that it keeps; None: unknown."""

    manifest: AgentManifest
    newest: str | None
    state: int | None

    @property
    def place(self) -> str:
        """The manifest as a path, if it is the user's own."""
        return place_of(self.manifest.name)

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        one = self.manifest
        state = "-" if self.state is None else size_text(self.state)
        return (one.name, one.version, self.newest or "-", one.install.kind, state, one.title)

    @property
    def as_json(self) -> dict[str, Any]:
        """The entry for programs."""
        one = self.manifest
        return {
            "name": one.name,
            "title": one.title,
            "summary": one.summary,
            "version": one.version,
            "newest": self.newest,
            "install": one.install.kind,
            "file": self.place or None,
            "services": list(one.services),
            "providers": list(one.providers),
            "state": list(one.state),
            "state_bytes": self.state,
        }


def agents(  # noqa: PLR0913 - each is an option
    what: What = Do.LIST,
    name: Name = None,
    *,
    extra_ca: ExtraCa = None,
    no_cache: NoCache = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """List the built-in agents and your own, or check one.

    Your own agents are in ~/.config/agent-sandbox/agents/NAME/agent.yaml. NEWEST is the newest version that `update`
    has found, and STATE the size of what the agent keeps in all stacks. A check reads the manifest, looks up the
    services, builds the image, and runs the version command in it without a network.
    """
    if (what is Do.CHECK) != (name is not None):
        said = "needs the name of an agent" if name is None else f"takes no name, but got `{name}`"
        raise UserError([Problem(where="", what=f"`{what}` {said}", hint=USAGE)])
    if name is None:
        return _list(as_json=as_json)
    _require_services(load_manifest(name))
    images = images_to_build((name,), None, cwd=Path.cwd(), opened=_no_project)
    verb = build_of(images, extra_ca=extra_ca, anew=no_cache)
    try:
        execute(backend().build(verb), dry_run=dry_run, quiet=quiet)
    except KeyboardInterrupt:
        say("interrupted: the current image was not built; the next build continues from the cache")
        return INTERRUPTED
    if not (dry_run or quiet):
        say(f"{name} works: its manifest is valid, its image was built, and its version command ran")
    return DONE


def _no_project() -> Any:  # noqa: ANN401 - an agent is named, so that no project is asked for
    raise AssertionError


def _list(*, as_json: bool) -> int:
    """Print all agents, and the problems of those that cannot be loaded."""
    manifests, problems = load_manifests(known_agents())
    sizes = state_sizes(driver())
    newest = known_versions(state_directory(os.environ))
    listed = [Listed(manifest=one, newest=newest.get(one.name), state=_size(sizes, one.name)) for one in manifests]
    if as_json:
        emit_json({"agents": [one.as_json for one in listed], "problems": [str(problem) for problem in problems]})
    else:
        emit_lines(_as_text(listed))
        say_problems(problems)
    return FIXABLE if problems else DONE


def _size(sizes: Mapping[str, int] | None, name: str) -> int | None:
    return None if sizes is None else sizes.get(name, 0)


def _as_text(listed: Sequence[Listed]) -> Iterator[str]:
    """Yield a table, with the manifest of each of the user's own agents below its row."""
    rows = [HEADINGS, *(one.cells for one in listed)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)] for row in rows]
    heading, *others = lines
    yield styled(("  ".join(heading).rstrip(), "title"))
    for one, (name, *cells) in zip(listed, others, strict=True):
        yield styled((name, "title"), f"  {'  '.join(cells).rstrip()}")
        if one.place:
            yield f"  {short_path(Path(one.place))}"


def _require_services(manifest: AgentManifest) -> None:
    known = shipped_services()
    unknown = [name for name in (*manifest.services, *manifest.providers) if name not in known]
    if unknown:
        hint = "agent-sandbox policy services lists them; hosts go into the project's policy.yaml"
        where = place_of(manifest.name) or manifest.name
        raise UserError(Problem(where=where, what=f"unknown service `{name}`", hint=hint) for name in unknown)
