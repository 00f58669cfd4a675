import io
import tarfile

from agent_sandbox.runtime.compose.tarball import tarball

TREE = {"lib/run": b"#!/bin/sh\n", "Dockerfile": b"FROM scratch\n"}


def test_contains_each_file_without_its_owner_and_modification_time() -> None:
    with tarfile.open(fileobj=io.BytesIO(tarball(TREE))) as archive:
        got = [(e.name, e.mode, e.mtime, e.uid, e.uname, _read(archive, e)) for e in archive.getmembers()]
    expected = [
        ("Dockerfile", 0o644, 0, 0, "", b"FROM scratch\n"),
        ("lib/run", 0o755, 0, 0, "", b"#!/bin/sh\n"),
    ]
    assert got == expected


def test_the_order_of_the_files_does_not_change_the_tarball() -> None:
    assert tarball(TREE) == tarball(dict(reversed(TREE.items())))


def _read(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    return file.read() if file else b""
