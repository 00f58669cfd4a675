"""A build context as a tar that is the same, byte for byte, wherever and whenever it is made."""

import io
import tarfile

from agent_sandbox.filetree import FileTree


def tarball(tree: FileTree) -> bytes:
    """Return an uncompressed tar: sorted paths, no owner, no time, and scripts alone may be run.

    A wheel keeps no mode, so a file's first two bytes say what it is.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(tree):
            entry = tarfile.TarInfo(path)
            entry.size = len(tree[path])
            entry.mode = 0o755 if tree[path].startswith(b"#!") else 0o644
            archive.addfile(entry, io.BytesIO(tree[path]))
    return buffer.getvalue()
