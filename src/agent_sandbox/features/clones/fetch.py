"""Fetch the branches and stashes of a clone into the project's repository, as `box/NAME/BRANCH`."""

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from tempfile import TemporaryFile

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.features.clones.checked import CheckedObjects, checked_objects
from agent_sandbox.features.clones.host_repository import FETCHED, HEADS, HostRepository
from agent_sandbox.features.clones.listing import Listing, parse_listing
from agent_sandbox.features.clones.repository_writes import Update, copy_pack, locked_references
from agent_sandbox.features.clones.volume import CloneVolume
from agent_sandbox.host.files import problem_of
from agent_sandbox.host.process import uninterrupted
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.clone_record import Clone

MOST_BYTES = 2 << 30
TAKEN = "another reference is in the way: git update-ref -d {}"


class Branch(Struct, frozen=True, kw_only=True):
    """A branch of a clone that has other commits than at its start, or a stash.

    `reference` is its place in the project's repository, `before` the commit there, "" for none. `commits` counts those
    that are new since the clone was made, `new` those of them that `before` does not have. `rewritten`: it no longer
    has the commit `before`. `stash`: it is a stash, whose commits are git's own.
    """

    name: str
    reference: str
    commit: str
    before: str
    commits: int = 0
    new: int = 0
    rewritten: bool = False
    stash: bool = False

    @property
    def is_fetched(self) -> bool:
        """Whether the project's repository has it already."""
        return self.commit == self.before


class CloneStatus(Struct, frozen=True, kw_only=True):
    """The branches of a clone that have new commits, and what else the clone lists."""

    branches: tuple[Branch, ...]
    listing: Listing


def read_status(volume: CloneVolume, clone: Clone, repository: HostRepository) -> CloneStatus:
    """Return the branches and files of a clone as they are now, without fetching anything."""
    ours = repository.references()
    said, complete = volume.list(dict.fromkeys(ours.values()))
    listing = parse_listing(said, complete=complete)
    present = {name: commit for name, commit in ours.items() if name.startswith(FETCHED)}
    branches: list[Branch] = []
    refused = dict(listing.refused)
    for name, commit in listing.branches.items():
        reference = f"{clone.references}{name}"
        if commit == clone.started.get(f"{HEADS}{name}") and reference not in present:
            continue
        if other := _in_the_way(reference, present):
            refused[name] = TAKEN.format(other)
            continue
        before, stash = present.get(reference, ""), name in listing.stashes
        branches.append(Branch(name=name, reference=reference, commit=commit, before=before, stash=stash))
    return CloneStatus(branches=tuple(branches), listing=replace(listing, refused=refused))


def _in_the_way(reference: str, present: Mapping[str, str]) -> str:
    """Return the reference whose file would be this one's directory, or the other way round, or ""."""
    clashes = (one for one in present if one.startswith(f"{reference}/") or reference.startswith(f"{one}/"))
    return next(clashes, "")


@contextmanager
def checked_branches(
    volume: CloneVolume, clone: Clone, repository: HostRepository, status: CloneStatus, *, most: int = MOST_BYTES
) -> Iterator[tuple[CheckedObjects, tuple[Branch, ...]]]:
    """Copy the commits of these branches into a temporary repository, and check them there.

    Yield it with the branches, their commits counted.
    """
    ours = tuple(dict.fromkeys(repository.references().values()))
    known = tuple(dict.fromkeys((*clone.started.values(), *repository.references(clone.references).values())))
    with checked_objects(repository, clone.name) as checked:
        commits = tuple(dict.fromkeys(one.commit for one in status.branches))
        there = checked.has(commits)
        wanted = tuple(one for one in commits if one not in there)
        if wanted:
            with TemporaryFile(prefix="agent-sandbox-") as pack:
                volume.pack(wanted, known, pack, most=most)
                checked.add(pack, most)
        checked.require_complete(commits, ours)
        started = tuple(sorted(checked.has([*clone.started.values()])))
        yield checked, tuple(_counted(checked, one, started) for one in status.branches)


def _counted(checked: CheckedObjects, branch: Branch, started: tuple[str, ...]) -> Branch:
    commits = checked.count(branch.commit, started)
    if not branch.before:
        return replace(branch, commits=commits, new=commits)
    new = checked.count(branch.commit, (*started, branch.before))
    return replace(branch, commits=commits, new=new, rewritten=checked.count(branch.before, (branch.commit,)) > 0)


def write_branches(
    repository: HostRepository, checked: CheckedObjects, branches: tuple[Branch, ...], clone: Clone
) -> None:
    """Write the checked objects and the references to the project's repository."""
    _require_no_links(repository, branches)
    for pack in checked.packs():
        copy_pack(repository.git, pack)
    nothing = "0" * len(branches[0].commit) if branches else ""
    updates = [Update(reference=one.reference, commit=one.commit, before=one.before or nothing) for one in branches]
    message = f"agent-sandbox fetch {clone.name}"
    if repository.reftable:
        _update_reftable(repository, updates, message)
        return
    with uninterrupted(), locked_references(repository.git, updates, message):
        now = repository.references(clone.references)
        if any(now.get(one.reference, "") != one.before for one in branches):
            what = "its references changed while this command ran"
            raise UserError([Problem(where=clone.name, what=what, hint="run it again")])


def _update_reftable(repository: HostRepository, updates: Sequence[Update], message: str) -> None:
    lines = "".join(f"update {one.reference}\0{one.commit}\0{one.before}\0" for one in updates)
    words = ("update-ref", "--no-deref", "--create-reflog", f"-m{message}", "-z", "--stdin")
    repository.output(*words, stdin=lines.encode("utf-8"))


def _require_no_links(repository: HostRepository, branches: tuple[Branch, ...]) -> None:
    """Raise UserError if git would write a reference or its log elsewhere: the project's agent can put links there."""
    ways = (PurePosixPath(folder, one.reference) for folder in ("", "logs") for one in branches)
    places = {repository.git / part for way in ways for part in (way, *way.parents)} - {repository.git}
    if links := sorted(filter(os.path.islink, places)):
        what = "git would follow this symbolic link"
        raise UserError([Problem(where=str(one), what=what, hint="if it is not yours, remove it") for one in links])


@contextmanager
def one_at_a_time(clone: Clone) -> Iterator[None]:
    """Hold the lock of a clone; raise UserError if another command holds it."""
    try:
        clone.root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(clone.root.with_name(f"{clone.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError([problem_of(str(clone.root), error)]) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        what, hint = "another command is using this clone", "wait until that command ends, then run this one again"
        raise UserError([Problem(where=clone.name, what=what, hint=hint)]) from error
    finally:
        os.close(handle)
