"""What one `fetch` brought from a clone."""

from typing import Any

from msgspec import Struct

from agent_sandbox.features.clones.fetch import Branch, CloneStatus
from agent_sandbox.project.clone_record import Clone


class Fetched(Struct, frozen=True, kw_only=True):
    """The branches that were written to the project's repository, and the clone's status just before."""

    clone: Clone
    status: CloneStatus
    branches: tuple[Branch, ...]

    @property
    def has_all(self) -> bool:
        """Whether the project's repository now has all of the clone's work, apart from ignored files."""
        listing = self.status.listing
        return listing.complete and not (listing.refused or listing.changed)


def as_json(fetched: Fetched) -> dict[str, Any]:
    """Return what `fetch --json` prints for one clone."""
    listing = fetched.status.listing
    return {
        "name": fetched.clone.name,
        "branches": [
            {
                "branch": one.name,
                "ref": one.reference,
                "commit": one.commit,
                "before": one.before or None,
                "commits": one.commits,
                "new": one.new,
                "rewritten": one.rewritten,
                "stash": one.stash,
            }
            for one in fetched.branches
        ],
        "refused": [{"branch": name, "reason": why} for name, why in listing.refused.items()],
        "uncommitted": list(listing.changed),
        "ignored": list(listing.ignored),
        "complete": listing.complete,
    }
