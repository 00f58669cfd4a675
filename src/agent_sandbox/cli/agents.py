"""`agent-sandbox agents [list | check NAME]`."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from agent_sandbox.agents.manifest import AgentManifest
from agent_sandbox.cli.framework.errors import DONE, FIXABLE, INTERRUPTED
from agent_sandbox.cli.framework.options import BaseImage, DryRun, ExtraCa, Json, NoCache, Quiet
from agent_sandbox.cli.framework.parameters import Argument
from agent_sandbox.cli.steps.execute import backend, execute
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say, say_problems
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.host.agents import known_agents, load_manifest, load_manifests, place_of
from agent_sandbox.runtime.init.build_inputs import build_of, images_to_build

USAGE = "agent-sandbox agents list | check NAME"


class Do(StrEnum):
    """What to do with agents."""

    LIST = "list"
    CHECK = "check"


What = Annotated[Do, Argument(help="list, or check NAME.", metavar="WHAT")]
Name = Annotated[str | None, Argument(help="The agent to check.", metavar="NAME")]


def completions(*before: str) -> tuple[str, ...]:
    """Return the actions, and the known agents for `check`, for shell completion."""
    match before:
        case ():
            return tuple(Do)
        case (Do.CHECK,):
            return known_agents()
    return ()


def agents(  # noqa: PLR0913 - each is an option
    what: What = Do.LIST,
    name: Name = None,
    *,
    base_image: BaseImage = "",
    extra_ca: ExtraCa = None,
    no_cache: NoCache = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """List the built-in agents and your own, or check one.

    Your own agents are in ~/.config/agent-sandbox/agents/NAME/agent.yaml. A check reads the manifest, looks up the
    services, builds the image, and runs the version command in it without a network.
    """
    if (what is Do.CHECK) != (name is not None):
        said = "needs the name of an agent" if name is None else f"takes no name, but got `{name}`"
        raise UserError([Problem(where="", what=f"`{what}` {said}", hint=USAGE)])
    if name is None:
        return _list(as_json=as_json)
    _require_services(load_manifest(name))
    images = images_to_build((name,), None, cwd=Path.cwd(), opened=_no_project)
    verb = build_of(images, base_image=base_image, extra_ca=extra_ca, anew=no_cache)
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
    if as_json:
        emit_json({"agents": [_as_json(one) for one in manifests], "problems": [str(problem) for problem in problems]})
    else:
        emit_lines(_as_text(manifests))
        say_problems(problems)
    return FIXABLE if problems else DONE


def _as_text(manifests: Iterable[AgentManifest]) -> Iterator[str]:
    """Yield one line per agent."""
    rows = [(one.name, one.version, _source(one), one.title) for one in manifests]
    widths = [max((len(cell) for cell in column), default=0) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        padded = (f"{cell:<{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        yield styled((f"{name:<{widths[0]}}", "title"), f"  {'  '.join(padded).rstrip()}")


def _source(manifest: AgentManifest) -> str:
    place = place_of(manifest.name)
    return f"{manifest.install.kind}, {place}" if place else manifest.install.kind


def _as_json(manifest: AgentManifest) -> dict[str, Any]:
    return {
        "name": manifest.name,
        "title": manifest.title,
        "summary": manifest.summary,
        "version": manifest.version,
        "install": manifest.install.kind,
        "file": place_of(manifest.name) or None,
        "services": list(manifest.services),
        "providers": list(manifest.providers),
        "state": list(manifest.state),
    }


def _require_services(manifest: AgentManifest) -> None:
    from agent_sandbox.policyfile import shipped_services  # noqa: PLC0415 - not needed for a list

    known = shipped_services()
    unknown = [name for name in (*manifest.services, *manifest.providers) if name not in known]
    if unknown:
        hint = "agent-sandbox policy services lists them; hosts go into the project's policy.yaml"
        where = place_of(manifest.name) or manifest.name
        raise UserError(Problem(where=where, what=f"unknown service `{name}`", hint=hint) for name in unknown)
