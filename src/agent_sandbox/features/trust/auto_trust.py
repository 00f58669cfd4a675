"""Trust what `init` and `policy allow` write, because the user ran them; not what they found."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from agent_sandbox.features.stack.init.initialise import Prepared
from agent_sandbox.features.trust.expected_files import generated
from agent_sandbox.features.trust.prompt import changes
from agent_sandbox.project.render.paths import POLICY, PROJECT_FILE, STACK
from agent_sandbox.project.render.reconcile import Verdict
from agent_sandbox.project.trust_snapshot import MARK, Standing, look
from agent_sandbox.project.trust_store import Store, open_store


def remember(store: Store, prepared: Prepared, now: Standing) -> None:
    """Add what `init` has just written to the trust record."""
    before = store.load(now.root) or replace(now, stack_files=(STACK,), files={})
    merged = {
        change.path: change.after
        for change in prepared.changes
        if change.before is not None and before.files.get(change.path) == change.before
    }
    fresh = {
        change.path: change.after
        for change in prepared.changes
        if change.path in {POLICY, PROJECT_FILE} and change.verdict is Verdict.WRITTEN
    }
    named = now.stack_files if now.stack_files == (STACK,) else before.stack_files
    files = {**_with_less(before, now), **merged, **generated(prepared), **fresh}
    store.save(replace(before, owner=now.owner, stack_files=named, files=files))


def _with_less(before: Standing, now: Standing) -> dict[str, str]:
    """Return the trusted files, with the project file as it is now if it asks for nothing more, or without it."""
    if now.box and {*now.box} & {*changes(now, before)}:
        return dict(before.files)
    return {path: text for path, text in before.files.items() if path in now.files or path not in before.box} | now.box


@contextmanager
def remembering(policy: Path, texts: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[None]:
    """Context manager for writing these `texts`: trust them if the policy was trusted before."""
    root, store = policy.absolute().parent.parent, open_store(environ)
    trusted = store.load(root) if policy.absolute() == root / POLICY else None
    if trusted is None:
        yield
        return
    before = look(root, environ)
    seen = not before.policy.keys() & set(changes(before, trusted))
    yield
    wanted = {**_policy(before), **texts}
    if seen and _policy(look(root, environ)) == wanted:
        store.save(replace(trusted, files={**trusted.files, **wanted}))


def _policy(standing: Standing) -> dict[str, str]:
    return {path: text.removeprefix(MARK) for path, text in standing.policy.items()}
