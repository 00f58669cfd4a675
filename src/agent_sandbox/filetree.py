"""A set of files as a value, for rendering, image builds and comparison."""

import hashlib
from collections.abc import Mapping

# A path relative to the tree's root, with forward slashes, to the file's bytes.
type FileTree = Mapping[str, bytes]


def digest(tree: FileTree) -> str:
    """Return the sha256 of all paths and contents, independent of order and unambiguous at boundaries.

    >>> digest({"a": b"1", "b": b""}) == digest({"b": b"", "a": b"1"})
    True
    """
    whole = hashlib.sha256()
    for path in sorted(tree):
        for part in (path.encode(), tree[path]):
            whole.update(len(part).to_bytes(8))
            whole.update(part)
    return whole.hexdigest()
