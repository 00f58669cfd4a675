"""Render what `init` would write; a file that equals it asks for nothing."""

from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.features.stack.init.initialise import InitOptions, Prepared, prepare
from agent_sandbox.features.trust.prompt import Written
from agent_sandbox.project.render.devcontainer import devcontainer_document
from agent_sandbox.project.render.formats.header import Provenance, provenance_of
from agent_sandbox.project.render.paths import DEVCONTAINER, RECORD, SHARED, STACK
from agent_sandbox.project.render.reconcile import OnConflict, Verdict

GENERATED = (STACK, DEVCONTAINER, SHARED)
WITH_OTHERS = (Verdict.MERGED, Verdict.KEPT)


def written_here(root: Path, agents: tuple[str, ...], environ: Mapping[str, str]) -> Written:
    """Return what this version writes for this directory and user.

    Limits and versions that a clone's author chose are a difference; the project file's are asked about by their keys.
    """
    options = InitOptions(
        agents=agents,
        path=root,
        on_conflict=OnConflict.REPLACE,
        recorded=False,
        settings=False,
    )
    prepared = prepare(options, environ)
    return Written(files=generated(prepared), members=devcontainer_document(prepared.agents, prepared.workspace))


def generated(prepared: Prepared) -> dict[str, str]:
    """Return the files that consist only of our own text.

    The header proves nothing, because anyone can write it. Equality with our text does.
    """
    found = {
        change.path: change.after
        for change in prepared.changes
        if change.path in GENERATED
        and change.verdict not in WITH_OTHERS
        and provenance_of(change.after) is Provenance.OURS
    }
    return found | ({RECORD: prepared.record} if STACK in found else {})
