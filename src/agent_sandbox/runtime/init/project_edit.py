"""Read the project file, and edit it as the options of `init` ask."""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from agent_sandbox.agents.pin import Pins, pins_in
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policytools.edit.value import Simple
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.projectfile.beside import beside_services
from agent_sandbox.projectfile.checks import place_in
from agent_sandbox.projectfile.editing import NEW, Key, add_packages, set_keys
from agent_sandbox.projectfile.parsing import parse_project_file
from agent_sandbox.projectfile.paths import is_image
from agent_sandbox.projectfile.spec import ProjectSpec
from agent_sandbox.render.paths import PROJECT_FILE
from agent_sandbox.render.reconcile import Change, Verdict
from agent_sandbox.render.record import Choices
from agent_sandbox.runtime.host.agents import known_agents
from agent_sandbox.runtime.init.project_file import Asked, Settled
from agent_sandbox.runtime.project.project_file import additions_in, by_name, project_files
from agent_sandbox.stack.limits import kept, limits
from agent_sandbox.stack.recorded import Ide


def parse(project: Path, text: str) -> ProjectSpec:
    """Return the values of a project's file; raise UserError with every problem in it."""
    return parse_project_file(text, file=str(project / PROJECT_FILE), agents=known_agents())


def require_setup(spec: ProjectSpec, texts: Mapping[str, str], *, file: str) -> None:
    """Raise UserError if the setup script is not there, or not visible inside."""
    script = PurePosixPath(spec.setup or "")
    hidden = [path for path in spec.mask if script.is_relative_to(path)]
    missing = spec.setup not in texts
    if spec.setup and (missing or hidden):
        why = f"does not exist: {spec.setup}" if missing else f"`mask` hides: {hidden[0]}"
        where = place_in(texts[PROJECT_FILE], file, "setup")
        raise UserError([Problem(where=where, what=f"`setup` names a file that {why}")])


def edited(project: Path, before: str | None, asked: Asked, recorded: Choices | None, *, title: str) -> Settled:
    """Return what the stack is made of once the file says what is asked, and what was `recorded` elsewhere.

    `title` is the name if the file has none.
    """
    spec = ProjectSpec() if before is None else parse(project, before)
    wanted = {**dict(_recorded(recorded, spec)), **dict(_options(asked))}
    if before is None or (spec.agents and spec.agents != asked.agents):
        wanted = {("agents",): asked.agents, **wanted}
    where = str(project / PROJECT_FILE)
    after = set_keys(NEW if before is None else before, wanted, file=where)
    after = add_packages(after, asked.packages, file=where)
    spec = parse_project_file(after, file=where)
    texts = {**project_files(project), PROJECT_FILE: after}
    require_setup(spec, texts, file=where)
    verdict = Verdict.WRITTEN if before is None else Verdict.MERGED
    return Settled(
        title=spec.name or title,
        ide=spec.ide or Ide.VSCODE,
        limits=limits(spec.limits.texts),
        pins=pins_in(spec.agent_versions),
        base_image=spec.base_image or "",
        added=additions_in(texts),
        spec=spec,
        beside=beside_services(spec.beside, by_name(texts), file=where),
        text=after,
        changes=(Change(path=PROJECT_FILE, verdict=verdict, before=before, after=after),) if after != before else (),
    )


def _options(asked: Asked) -> Iterator[tuple[Key, Simple]]:
    if asked.title is not None:
        yield ("name",), asked.title
    if asked.ide is not None:
        yield ("ide",), asked.ide.value
    if asked.base_image is not None:
        if not is_image(asked.base_image):
            what, hint = f"not an image: {safe_repr(asked.base_image)}", "write `NAME:TAG` or `REGISTRY/NAME:TAG`"
            raise UserError([Problem(where="--base-image", what=what, hint=hint)])
        yield ("base_image",), asked.base_image
    yield from _pinned(asked.pins or {})
    yield from _limits(asked.limits)


def _pinned(pins: Pins) -> Iterator[tuple[Key, Simple]]:
    for name, pin in pins.items():
        yield ("agent_versions", name), pin.text


def _recorded(record: Choices | None, spec: ProjectSpec) -> Iterator[tuple[Key, Simple]]:
    """Yield the choices of an earlier version that the project file does not say."""
    if record is None:
        return
    if not spec.agent_versions:
        yield from _pinned(record.pins)
    if record.project_file:
        return
    if record.ide is not Ide.VSCODE and spec.ide is None:
        yield ("ide",), record.ide.value
    yield from _limits({name: text for name, text in kept(record.limits).items() if name not in spec.limits.texts})


def _limits(texts: Mapping[str, str]) -> Iterator[tuple[Key, Simple]]:
    for name, text in texts.items():
        yield ("limits", name), int(text) if text.isdecimal() else text
