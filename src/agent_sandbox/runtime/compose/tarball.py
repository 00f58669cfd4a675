"""Make a reproducible tar archive of a build context."""

import io
import tarfile

from agent_sandbox.filetree import FileTree


def tarball(tree: FileTree) -> bytes:
    """Return an uncompressed tar: sorted paths, no owner, no time, only scripts executable.

    A wheel stores no file modes, so scripts are recognised by `#!`.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(tree):
            entry = tarfile.TarInfo(path)
            entry.size = len(tree[path])
            entry.mode = 0o755 if tree[path].startswith(b"#!") else 0o644
            archive.addfile(entry, io.BytesIO(tree[path]))
    return buffer.getvalue()
