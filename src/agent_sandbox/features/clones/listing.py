"""Parse what a clone lists: branches, stashes, and files that are in no commit. The agent decides all of it. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from agent_sandbox.printable import UNSEEN

HEADS, STASH = "refs/heads/", "refs/stash"
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.ASCII)
MOST_BRANCHES = 1000
# A stash is fetched as `stash-COMMIT`: its number changes with each new one.
STASH_DIGITS = 10
# Under this name, commits are fetched that were made with a detached HEAD and are in no branch.
DETACHED = "detached"
# A commit that only a tag, a note or another worktree has: it is not fetched.
OTHERS = "others"
NO_BRANCH = "no branch has this commit, only a tag, a note or another worktree; inside, `git branch NAME COMMIT`"
LONGEST = 200
# What git forbids in a reference (git-check-ref-format), and what it forbids at the start of a branch.
FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^-|^@$|^/|/$|\.$|(?:^|/)\.|\.lock(?:/|$)")
CHANGED, IGNORED = "changed", "ignored"


class Listing(Struct, frozen=True, kw_only=True):
    """What a clone has: commits by branch, and files that are in no commit.

    `stashes` are the names of those branches that are stashes. `refused` are branches whose names are not used, with
    the reason. `head` is the checked-out branch, "" without one. `complete`: all files were listed.
    """

    branches: Mapping[str, str]
    stashes: frozenset[str]
    refused: Mapping[str, str]
    head: str
    changed: tuple[str, ...]
    ignored: tuple[str, ...]
    complete: bool


def parse_listing(data: bytes, *, complete: bool = True) -> Listing:
    """Parse the list of a clone as far as it is valid. `complete`: the list was not cut off."""
    text = data.decode("utf-8", "surrogateescape")
    before, nul, after = text.partition("\0")
    lines = before.splitlines() if before.isascii() else before.split("\n")
    found: dict[str, str] = {}
    refused: dict[str, str] = {}
    stashes: set[str] = set()
    head = ""
    for line in lines:
        first, _, name = line.partition(" ")
        if first == "HEAD":
            head = name.removeprefix(HEADS)
        elif name == OTHERS:
            refused[first[:STASH_DIGITS]] = NO_BRANCH
        elif name.startswith(HEADS) or (name in (STASH, "HEAD") and first not in found.values()):
            others = {STASH: f"stash-{first[:STASH_DIGITS]}", "HEAD": DETACHED}
            branch = others.get(name, name.removeprefix(HEADS))
            why = _refusal(branch, first, found)
            if why:
                refused[branch] = why
                continue
            found[branch] = first
            if name == STASH:
                stashes.add(branch)
    files = after.split("\0")
    return Listing(
        branches=found,
        stashes=frozenset(stashes),
        refused=refused,
        head=head if head in found else "",
        changed=tuple(_files(files[:-1], ignored=False)),
        ignored=tuple(_files(files[:-1], ignored=True)),
        complete=complete and bool(nul) and not files[-1],
    )


def _refusal(branch: str, commit: str, others: Mapping[str, str]) -> str:
    """Return why a branch cannot be fetched, or ""."""
    if not COMMIT.fullmatch(commit):
        return "it does not name a commit"
    if not branch or len(branch) > LONGEST or FORBIDDEN.search(branch):
        return "git does not allow the name"
    if not branch.isprintable() or UNSEEN.intersection(branch):
        return "its name contains invisible characters"
    if len(others) >= MOST_BRANCHES:
        return f"only {MOST_BRANCHES} branches are fetched"
    return _clash(branch, others)


def _clash(branch: str, others: Mapping[str, str]) -> str:
    folded = branch.casefold()
    for other in map(str.casefold, others):
        if folded == other:
            return "its name differs from another branch only in case"
        if folded.startswith(f"{other}/") or other.startswith(f"{folded}/"):
            return "its name conflicts with another branch, as `a/b` does with `a`"
    return ""


def _files(entries: Sequence[str], *, ignored: bool) -> Iterator[str]:
    for entry in entries:
        if len(entry) > 3 and (entry[:2] == "!!") == ignored:
            yield entry[3:]
