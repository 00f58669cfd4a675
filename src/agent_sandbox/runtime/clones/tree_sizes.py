"""Measure how long a list of all paths of a commit would be, without making it. Pure.

A few small trees can describe more paths than any disk has, and git collects all of them in memory. Here, each tree
counts once, however often and in however many commits it is used.
"""

from collections.abc import Mapping

from msgspec import Struct

DIRECTORY = (b"40000", b"040000")


class Tree(Struct, frozen=True):
    """A tree object: how many files it has, the length of their names, and each subdirectory's name length and tree."""

    files: int = 0
    names: int = 0
    folders: tuple[tuple[int, str], ...] = ()


class Size(Struct, frozen=True):
    """How many paths are below a tree, and the length of the list of them."""

    paths: int
    length: int


def parse_tree(data: bytes, hash_bytes: int) -> Tree:
    """Parse a tree object; raise ValueError if it is cut off."""
    at, files, names = 0, 0, 0
    folders: list[tuple[int, str]] = []
    while at < len(data):
        nul = data.index(b"\0", at)
        mode, _, name = data[at:nul].partition(b" ")
        at = nul + 1 + hash_bytes
        if at > len(data):
            raise ValueError("the last hash is cut off")
        if mode in DIRECTORY:
            folders.append((len(name) + 1, data[nul + 1 : at].hex()))
        else:
            files += 1
            names += len(name) + 1
    return Tree(files, names, tuple(folders))


def measure(root: str, trees: Mapping[str, Tree], known: dict[str, Size]) -> Size:
    """Return the size of a tree. `known` has the sizes that were measured before, and gets those of all trees below.

    A tree that is missing counts as empty.
    """
    waiting = [root]
    while waiting:
        name = waiting[-1]
        tree = trees.get(name, Tree())
        if below := [folder for _, folder in tree.folders if folder not in known]:
            waiting += below
            continue
        sizes = [(length, known[folder]) for length, folder in tree.folders]
        known[name] = Size(
            tree.files + sum(size.paths for _, size in sizes),
            tree.names + sum(size.length + size.paths * length for length, size in sizes),
        )
        waiting.pop()
    return known[root]
