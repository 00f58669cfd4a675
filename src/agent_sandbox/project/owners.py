"""Tell who owns a project's directory: `dev` inside is the same user."""

import os
from pathlib import Path

from agent_sandbox.stack.recorded import Owner


def owner_of(project: Path) -> Owner:
    """Return the uid and gid for `dev`: those of the directory's owner, but never root's."""
    return owner_by(project.stat())


def owner_by(status: os.stat_result) -> Owner:
    """Return the uid and gid for `dev` for a directory with this status."""
    default = Owner()
    if status.st_uid == 0:
        return default
    return Owner(uid=status.st_uid, gid=status.st_gid or default.gid)


def belongs_to_root(root: Path) -> bool:
    """Return whether only root may write there; `dev` is never root."""
    return root.stat().st_uid == 0
