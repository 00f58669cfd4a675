"""Combine the options of `init` with the project file: an option edits it, and it decides what no option says."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_sandbox.policytools.edit.value import Simple
from agent_sandbox.projectfile.editing import NEW, Key, set_keys
from agent_sandbox.projectfile.parsing import parse_project_file
from agent_sandbox.projectfile.spec import ProjectSpec
from agent_sandbox.render.paths import PROJECT_FILE, STACK
from agent_sandbox.render.reconcile import Change, Verdict
from agent_sandbox.render.record import PROJECT_FILE_KEY, Record, parse_record
from agent_sandbox.runtime.host.agents import known_agents
from agent_sandbox.runtime.host.files import read_text
from agent_sandbox.stack.limits import DEFAULT, kept, limits
from agent_sandbox.stack.model import Limits
from agent_sandbox.stack.workspace import Ide


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of `init` that shape the stack; None and absent limits were not given."""

    agent: str
    title: str | None = None
    ide: Ide | None = None
    limits: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What the stack is made of, and the change of the project file; `digest` is "" without a project file."""

    title: str | None
    ide: Ide
    limits: Limits
    spec: ProjectSpec
    digest: str = ""
    changes: tuple[Change, ...] = ()


def read_project_file(project: Path) -> tuple[str | None, ProjectSpec]:
    """Return the text and the values of a project's file; raise UserError with every problem in it."""
    text = read_text(project, PROJECT_FILE)
    if text is None:
        return None, ProjectSpec()
    return text, parse_project_file(text, file=str(project / PROJECT_FILE), agents=known_agents())


def settle(project: Path, asked: Asked, record: Record | None) -> Settled:
    """Return what an option says, else the project file, else an earlier `init`'s record, else the default.

    The first option creates the project file. Once it exists, it takes over the choices that were recorded.
    """
    limits(asked.limits, spelled="--{}")  # report an invalid option by its name
    before, spec = read_project_file(project)
    recorded = record if record and not record.project_file else None
    options = dict(_options(asked))
    if before is None and not options:
        return Settled(
            title=record.title if record else None,
            ide=recorded.ide if recorded else Ide.VSCODE,
            limits=recorded.limits if recorded else DEFAULT,
            spec=spec,
        )
    wanted = {**dict(_recorded(recorded, spec)), **options}
    if before is None or (spec.agents and spec.agents[0] != asked.agent):
        wanted = {("agents",): (asked.agent,), **wanted}
    where = str(project / PROJECT_FILE)
    after = set_keys(NEW if before is None else before, wanted, file=where)
    spec = parse_project_file(after, file=where)
    verdict = Verdict.WRITTEN if before is None else Verdict.MERGED
    return Settled(
        title=spec.name or (record.title if record else None),
        ide=spec.ide or Ide.VSCODE,
        limits=limits(spec.limits.texts),
        spec=spec,
        digest=digest_of(after),
        changes=(Change(path=PROJECT_FILE, verdict=verdict, before=before, after=after),) if after != before else (),
    )


def digest_of(text: str | None) -> str:
    """Return the digest of a project file's text, as the stack's file records it; "" for no file."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()[:16]


def is_outdated(project: Path) -> bool:
    """Return whether the stack was rendered from another text of the project file."""
    text, digest = read_text(project, STACK) or "", digest_of(read_text(project, PROJECT_FILE))
    if not digest and PROJECT_FILE_KEY not in text:
        return False  # most projects: parsing takes longer than all the rest
    record = parse_record(text)
    return record is not None and record.project_file != digest


def _options(asked: Asked) -> Iterator[tuple[Key, Simple]]:
    if asked.title is not None:
        yield ("name",), asked.title
    if asked.ide is not None:
        yield ("ide",), asked.ide.value
    yield from _limits(asked.limits)


def _recorded(record: Record | None, spec: ProjectSpec) -> Iterator[tuple[Key, Simple]]:
    """Yield the choices of an earlier `init` that the project file does not say."""
    if record is None:
        return
    if record.ide is not Ide.VSCODE and spec.ide is None:
        yield ("ide",), record.ide.value
    yield from _limits({name: text for name, text in kept(record.limits).items() if name not in spec.limits.texts})


def _limits(texts: Mapping[str, str]) -> Iterator[tuple[Key, Simple]]:
    for name, text in texts.items():
        yield ("limits", name), int(text) if text.isdecimal() else text
