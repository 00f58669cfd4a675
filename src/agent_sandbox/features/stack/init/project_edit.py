"""Read the project file, and edit it as the options of `init` ask, with the smallest changes to its text."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from agent_sandbox.agents.pin import Pins, pins_in
from agent_sandbox.features.stack.init.project_file import Asked, Settled
from agent_sandbox.host.agents import known_agents
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policytools.edit.insertion import insertion
from agent_sandbox.policytools.edit.value import Simple, flow_text, set_value
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project_file import additions_in, by_name, project_files
from agent_sandbox.project.render.paths import PROJECT_FILE
from agent_sandbox.project.render.reconcile import Change, Verdict
from agent_sandbox.project.render.record import Choices
from agent_sandbox.projectfile.beside import beside_services
from agent_sandbox.projectfile.checks import place_in
from agent_sandbox.projectfile.parsing import parse_project_file
from agent_sandbox.projectfile.paths import is_image
from agent_sandbox.projectfile.spec import ProjectSpec
from agent_sandbox.stack.limits import kept, limits
from agent_sandbox.stack.recorded import Ide

SCHEMA_FILE = "sandbox.schema.json"
NEW = f"""\
# yaml-language-server: $schema={SCHEMA_FILE} (agent-sandbox project schema > .devcontainer/{SCHEMA_FILE})
# What the sandbox is made of. `agent-sandbox up` applies an edit.
version: 1
"""

type Key = tuple[str, ...]


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


def set_keys(text: str, values: Mapping[Key, Simple], *, file: str) -> str:
    """Return the text with these keys set; raise UserError if the result would not be exactly what was asked for."""
    parse_project_file(text, file=file)
    for path, value in values.items():
        change = set_value(text, path, value)
        after = change.into(text) if change else ""
        if not change or _document(after, file) != _with(_document(text, file), path, value):
            what = f"cannot set `{'.'.join(path)}` in this file automatically"
            hint = f"write `{_nested(path, value)}` by hand"
            raise UserError([Problem(where=file, what=what, hint=hint)])
        text = after
    return text


def add_packages(text: str, names: Sequence[str], *, file: str) -> str:
    """Return the text with these Debian packages; raise UserError if they cannot be added."""
    for name in names:
        present = parse_project_file(text, file=file).packages
        if name in present:
            continue
        change = insertion(text, "packages", name)
        after = change.into(text) if change else ""
        wanted = {**_document(text, file), "packages": (*present, name)}
        if not change or _document(after, file) != wanted:
            what, hint = f"cannot add the package {name} to this file automatically", f"add `- {name}` under `packages`"
            raise UserError([Problem(where=file, what=what, hint=f"{hint} by hand")])
        text = after
    return text


def _document(text: str, file: str) -> dict[str, Any]:
    try:
        return parse_project_file(text, file=file).model_dump(exclude_unset=True)
    except UserError:
        return {}


def _with(document: dict[str, Any], path: Key, value: Simple) -> dict[str, Any]:
    lines = parse_project_file(f"{_nested(path, value)}\n", file="").model_dump(exclude_unset=True)
    key, *more = path
    inner = lines[key]
    if more and isinstance(document.get(key), dict):
        inner = {**document[key], **inner}
    return {**document, key: inner}


def _nested(path: Key, value: Simple) -> str:
    key, *more = path
    return f"{key}: {{{_nested(tuple(more), value)}}}" if more else f"{key}: {flow_text(value)}"
