"""Bring the policy that the user trusts in a project to its clones."""

import hashlib
import os
from pathlib import Path

from msgspec.structs import replace

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.host.files import project_lock, read_text, write_all
from agent_sandbox.host.user_dirs import state_directory
from agent_sandbox.project.clone_record import Clone, path_option, save_clone
from agent_sandbox.project.render.paths import POLICY
from agent_sandbox.project.trust_snapshot import Standing, look
from agent_sandbox.project.trust_store import open_store


def bring_policy(clone: Clone, trusted: Standing) -> Clone:
    """Write the policy that is trusted in the project into the clone's directory, and return the clone's new record.

    A policy that was edited in the clone stays.
    """
    if keeps_own_policy(clone):
        option = path_option(clone.root, os.environ, cwd=Path.cwd())
        how = f"agent-sandbox policy allow{option} adds to it"
        say(("note:", "title"), f" {clone.name} keeps its own policy, because it was edited there; {how}")
        return clone
    write_all(clone.root, trusted.policy, shared=trusted.policy.keys())
    brought = replace(clone, policy=_digest(trusted.policy.get(POLICY)))
    save_clone(brought)
    return brought


def update_policy(clone: Clone) -> None:
    """Bring the policy that the user trusts in the clone's project now, if any, and trust it in the clone."""
    store = open_store(os.environ)
    trusted = store.load(clone.project)
    with project_lock(clone.root, state_directory(os.environ)):
        if trusted and bring_policy(clone, trusted).policy == _digest(read_text(clone.root, POLICY)):
            store.save(look(clone.root, os.environ))


def keeps_own_policy(clone: Clone) -> bool:
    """Return whether the policy was edited in the clone."""
    return clone.policy not in ("", _digest(read_text(clone.root, POLICY)))


def _digest(text: str | None) -> str:
    return hashlib.sha256((text or "").encode()).hexdigest()
