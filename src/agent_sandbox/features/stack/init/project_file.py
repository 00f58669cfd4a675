"""Combine the options of `init` with the project file: an option edits it, and it decides what no option says."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from agent_sandbox.agents.pin import Pins
from agent_sandbox.host.files import read_text
from agent_sandbox.images import Additions
from agent_sandbox.project.record import known, record_files
from agent_sandbox.project.render.paths import PROJECT_FILE, RECORD, STACK
from agent_sandbox.project.render.reconcile import Change
from agent_sandbox.project.render.record import PROJECT_FILE_KEY, Choices
from agent_sandbox.stack.limits import DEFAULT, Limits, limits
from agent_sandbox.stack.recorded import Ide
from agent_sandbox.stack.workspace import Beside

if TYPE_CHECKING:
    from agent_sandbox.projectfile.spec import ProjectSpec


class Asked(Struct, frozen=True, kw_only=True):
    """The options of `init` that shape the stack; None and absent limits were not given."""

    agents: tuple[str, ...]
    title: str | None = None
    ide: Ide | None = None
    limits: Mapping[str, str]
    packages: tuple[str, ...] = ()
    base_image: str | None = None
    pins: Pins | None = None

    @property
    def says_more(self) -> bool:
        """Whether an option was given besides the agents."""
        given = (self.title, self.base_image, self.pins)
        return bool(self.ide or self.limits or self.packages) or given != (None, None, None)


class Settled(Struct, frozen=True, kw_only=True):
    """The parts of the stack, and the change of the project file. Without one, `spec` and `text` are None.

    What no option can say is in `spec` alone.
    """

    title: str
    ide: Ide
    limits: Limits
    pins: Pins = {}
    base_image: str = ""
    added: Additions = field(default_factory=Additions)
    spec: "ProjectSpec | None" = None
    beside: tuple[Beside, ...] = ()
    text: str | None = None
    changes: tuple[Change, ...] = ()


def settle(project: Path, asked: Asked, choices: Choices | None, *, title: str) -> Settled:
    """Return what an option says, else the project file, else an earlier `init`'s choices, else the default.

    The first option creates the project file. Once it exists, it takes over the choices that were recorded. `title` is
    the name if the file has none.
    """
    limits(asked.limits, spelled="--{}")  # report an invalid option by its name
    before = read_text(project, PROJECT_FILE)
    if before is None and not asked.says_more:
        recorded = choices if choices and not choices.project_file else None
        return Settled(
            title=title,
            ide=recorded.ide if recorded else Ide.VSCODE,
            limits=recorded.limits if recorded else DEFAULT,
            pins=recorded.pins if recorded else {},
        )
    from agent_sandbox.features.stack.init.project_edit import edited  # noqa: PLC0415 - brings pydantic; most have no file

    return edited(project, before, asked, choices, title=title)


def agents_named(project: Path) -> tuple[str, ...]:
    """Return the agents that the project file names."""
    text = read_text(project, PROJECT_FILE)
    if text is None:
        return ()
    from agent_sandbox.features.stack.init.project_edit import parse  # noqa: PLC0415 - as above

    return parse(project, text).agents or ()


def digest_of(text: str | None) -> str:
    """Return the digest of a project file's text, as the stack's file records it; "" for no file."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()[:16]


def is_outdated(project: Path) -> bool:
    """Return whether the stack was rendered from another text of the project file."""
    texts, digest = record_files(project), digest_of(read_text(project, PROJECT_FILE))
    if not digest and RECORD not in texts and PROJECT_FILE_KEY not in texts.get(STACK, ""):
        return False  # most projects without a record: parsing takes longer than all the rest
    record = known(texts)
    return record is not None and record.project_file != digest
