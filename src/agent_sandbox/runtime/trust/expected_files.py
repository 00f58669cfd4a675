"""What `init` would write here: a file that is just that asks for nothing of its own."""

from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.render.devcontainer import devcontainer_document
from agent_sandbox.render.header import Hand, hand_of
from agent_sandbox.render.paths import COMPOSE, DEVCONTAINER
from agent_sandbox.render.reconcile import OnConflict, Verdict
from agent_sandbox.runtime.init.initialise import Prepared, Wish, prepare
from agent_sandbox.runtime.trust.prompt import Written
from agent_sandbox.stack.limits import DEFAULT, told

GENERATED = (COMPOSE, DEVCONTAINER)
WITH_OTHERS = (Verdict.MERGED, Verdict.KEPT)


def written_here(root: Path, agent: str, environ: Mapping[str, str]) -> Written:
    """Return what this version writes for this directory, and this user: a clone's own limits are a difference."""
    wish = Wish(
        agent=agent,
        path=root,
        title=None,
        ide=None,
        on_conflict=OnConflict.REPLACE,
        detect=False,
        limits=told(DEFAULT),
    )
    prepared = prepare(wish, environ)
    return Written(files=generated(prepared), members=devcontainer_document(prepared.workspace))


def generated(prepared: Prepared) -> dict[str, str]:
    """Return the files that are all ours once they are written; one that somebody else has a part in is none.

    The header alone proves nothing: anybody can write it. That our own text is in place of what was there does.
    """
    return {
        change.path: change.after
        for change in prepared.changes
        if change.path in GENERATED and change.verdict not in WITH_OTHERS and hand_of(change.after) is Hand.OURS
    }
