"""What `init` and `policy allow` write by the user's own command is trusted by that; what they found is not."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from agent_sandbox.render.paths import COMPOSE, POLICY
from agent_sandbox.render.reconcile import Verdict
from agent_sandbox.runtime.initialise import Prepared
from agent_sandbox.runtime.trust.question import changes
from agent_sandbox.runtime.trust.standing import POLICY_FILES, Standing, look
from agent_sandbox.runtime.trust.store import Store, open_store
from agent_sandbox.runtime.trust.written import generated

MARK = "\ufeff"


def remember(store: Store, prepared: Prepared, now: Standing) -> None:
    """Record what `init` has just written, beside what was trusted before."""
    before = store.load(now.root) or replace(now, compose=(COMPOSE,), files={})
    merged = {
        change.path: change.after
        for change in prepared.changes
        if change.before is not None and before.files.get(change.path) == change.before
    }
    fresh = {
        change.path: change.after
        for change in prepared.changes
        if change.path == POLICY and change.verdict is Verdict.WRITTEN
    }
    compose = now.compose if now.compose == (COMPOSE,) else before.compose
    files = {**before.files, **merged, **generated(prepared), **fresh}
    store.save(replace(before, owner=now.owner, compose=compose, files=files))


@contextmanager
def remembering(file: Path, text: str, environ: Mapping[str, str]) -> Iterator[None]:
    """While the policy `file` becomes `text`: trust that, if all of it was trusted before."""
    root, store = file.absolute().parent.parent, open_store(environ)
    trusted = store.load(root) if file.absolute() == root / POLICY else None
    seen = trusted is not None and not set(changes(look(root, environ), trusted)).intersection(POLICY_FILES)
    yield
    if trusted is not None and seen:
        now = {path: text for path, text in look(root, environ).files.items() if path in POLICY_FILES}
        if now[POLICY].removeprefix(MARK) == text:
            store.save(replace(trusted, files={**trusted.files, **now}))
