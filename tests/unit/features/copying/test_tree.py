"""Both ends of a copy, without a process between them. The sender may be hostile, and so may the files here."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_sandbox.features.copying import tree
from agent_sandbox.features.copying.tree import (
    DATA,
    DEEPEST,
    END,
    EXECUTABLE,
    FAILED,
    FILE,
    FOLDER,
    FRAME,
    SKIPPED,
    BrokenStreamError,
    Copied,
    Meter,
    Receiver,
    RefusedError,
    base_of,
    opened,
    send,
)
from table_tests import each

BOX = (sys.executable, "-I", "-c", Path(tree.__file__).read_text())


def meter(most_bytes: int = 1 << 20, most_entries: int = 1000) -> Meter:
    return Meter(most_bytes=most_bytes, most_entries=most_entries)


def frame(kind: int, data: bytes = b"", flag: int = 0) -> bytes:
    return FRAME.pack(kind, flag, len(data)) + data


def endless(kind: int) -> bytes:
    """Return the head of the longest frame."""
    return FRAME.pack(kind, 0, 0xFFFFFFFF)


def sent(path: Path | str, limits: Meter | None = None) -> bytes:
    out = io.BytesIO()
    with opened(str(path)) as place:
        send(place, out, limits or meter())
    return out.getvalue()


def received(stream: bytes, target: Path | str, base: str = "copy", limits: Meter | None = None) -> Copied:
    with opened(str(target)) as place:
        return Receiver(place, base, limits or meter()).receive(io.BytesIO(stream))


def copied(source: Path | str, target: Path | str) -> Copied:
    return received(sent(source), target, base_of(str(source)))


def listed(folder: Path) -> dict[str, str]:
    """Return the regular files below a directory with their contents."""
    return {str(one.relative_to(folder)): one.read_text() for one in sorted(folder.rglob("*")) if one.is_file()}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory with a file, a program, a directory, an empty directory, a link and a pipe."""
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "a").write_text("A" * (tree.CHUNK + 1))
    (folder / "sub" / "b").write_text("B")
    (folder / "sub" / "b").chmod(0o4755)
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    return folder


def test_a_directory_arrives_without_links_pipes_and_special_modes(source: Path, tmp_path: Path) -> None:
    found = copied(source, tmp_path / "new")
    assert found == Copied(
        files=2,
        size=tree.CHUNK + 2,
        skipped=[("link", "symbolic links are not copied"), ("pipe", "not a regular file or directory")],
    )
    assert listed(tmp_path / "new") == {"a": "A" * (tree.CHUNK + 1), "sub/b": "B"}
    assert sorted(one.name for one in (tmp_path / "new").iterdir()) == ["a", "empty", "sub"]
    umask = os.umask(0o22)
    os.umask(umask)
    assert (tmp_path / "new/sub/b").stat().st_mode & 0o7777 == 0o777 & ~umask
    assert (tmp_path / "new/a").stat().st_mode & 0o7777 == 0o666 & ~umask


# Results of `cp -r SOURCE TARGET` beside a file `f`, a directory `d` with a file `x` and a directory `full` with `d/x`.
CP = {
    ("f", "new"): {"new": "f"},
    ("f", "d"): {"d/f": "f", "d/x": "x"},
    ("f", "d/"): {"d/f": "f", "d/x": "x"},
    ("f", "d/x"): {"d/x": "f"},
    ("f", "."): {"f": "f"},
    ("d", "new"): {"new/x": "x"},
    ("d", "new/"): {"new/x": "x"},
    ("d/", "full"): {"full/d/x": "x", "full/d/y": "y"},
    ("d", "full/../full"): {"full/d/x": "x", "full/d/y": "y"},
    ("d/.", "full"): {"full/x": "x"},
    ("d/.", "new"): {"new/x": "x"},
    ("full/../d", "new"): {"new/x": "x"},
}


@each("paths, expected", CP.items())
def test_the_target_follows_the_rules_of_cp(
    tmp_path_factory: pytest.TempPathFactory, paths: tuple[str, str], expected: dict[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("cp")
    for name, text in {"f": "f", "d/x": "x", "full/d/x": "old", "full/d/y": "y"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    before = listed(folder)
    source, target = paths
    # pathlib would drop the last "/" and "/."
    copied(f"{folder}/{source}", f"{folder}/{target}")
    changed = {name: text for name, text in listed(folder).items() if before.get(name) != text or name in expected}
    assert changed == expected


REFUSED = {
    ("f", "no/new"): "no: no such file or directory",
    ("f", "new/"): "new/: no such directory",
    ("f", "x/y"): "x: not a directory",
    ("f", "x/"): "x/: not a directory",
    ("d", "x"): "x: not a directory",
    ("f", "holder"): "holder: is a directory",
    ("d", "other"): "other: not a directory",
    ("f", "pipes"): "pipes: not a regular file",
    ("f", "link"): "link: is a symbolic link, and links are not followed; it leads to {0}/d",
    ("f", "link/new"): "link: is a symbolic link, and links are not followed; it leads to {0}/d",
    ("f", "links"): "links: a symbolic link is there",
    ("d", "links"): "links: not a directory",
    ("no", "new"): "no: no such file or directory",
    ("f/", "new"): "f/: not a directory",
    ("f/.", "new"): "f/.: not a directory",
    ("f/x", "new"): "f: not a directory",
    ("link", "new"): "link: is a symbolic link, and links are not followed; it leads to {0}/d",
    ("link/x", "new"): "link: is a symbolic link, and links are not followed; it leads to {0}/d",
    ("pipes/f", "new"): "pipes/f: not a regular file or directory",
    ("d/..", "new"): "d/..: write the name of this directory",
}


@each("paths, said", REFUSED.items())
def test_an_impossible_copy_is_refused_with_a_reason_and_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, paths: tuple[str, str], said: str
) -> None:
    folder = tmp_path_factory.mktemp("refused")
    for name in ("f", "x", "d/x", "holder/f/x", "other/d"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    for name, target in {"link": "d", "links/f": "../x", "links/d": "../d"}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(target)
    (folder / "pipes").mkdir()
    os.mkfifo(folder / "pipes" / "f")
    before = listed(folder)
    source, target = paths
    with pytest.raises(RefusedError) as refused:
        copied(f"{folder}/{source}", f"{folder}/{target}")
    assert str(refused.value) == f"{folder}/{said}".format(folder)
    assert listed(folder) == before


def test_relative_paths_start_at_the_working_directory(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source / "sub")
    copied("../a", "c")
    copied("..//sub/b", "../../d")
    copied(".", "../../e")
    assert (source / "sub/c").exists()
    assert (tmp_path / "d").read_text() == "B"
    assert sorted(listed(tmp_path / "e")) == ["b", "c"]


def test_a_replaced_file_keeps_its_mode_and_its_hard_links_keep_the_old_content(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "old").chmod(0o600)
    (tmp_path / "other").hardlink_to(tmp_path / "old")
    received(frame(FILE, flag=EXECUTABLE) + frame(DATA, b"new") + frame(END), tmp_path / "old")
    assert ((tmp_path / "old").read_text(), (tmp_path / "other").read_text()) == ("new", "old")
    assert (tmp_path / "old").stat().st_mode & 0o7777 == 0o600


def test_lists_entries_that_are_in_the_way_and_copies_the_rest(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (target / "source" / "a").mkdir(parents=True)
    (target / "source" / "sub").symlink_to("/tmp")  # noqa: S108 - never followed
    (target / "source" / "empty").write_text("a file")
    (source / "z").write_text("Z")
    found = copied(source, target)
    assert found.skipped == [
        ("a", "is a directory"),
        ("empty", "not a directory"),
        ("link", "symbolic links are not copied"),
        ("pipe", "not a regular file or directory"),
        ("sub", "not a directory"),
    ]
    assert (found.files, listed(target)) == (1, {"source/empty": "a file", "source/z": "Z"})


def test_names_only_the_first_20_skipped_entries(tmp_path: Path) -> None:
    many = b"".join(frame(SKIPPED, b"%d" % number, 1) for number in range(30))
    found = received(frame(FOLDER) + many + frame(END), tmp_path / "new")
    assert (len(found.skipped), found.more) == (20, 10)


def test_leaves_out_refused_entries(tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []

    def refuse(parts: tuple[str, ...]) -> str:
        asked.append(parts)
        return "not here" if parts[-1] == "no" else ""

    inner = frame(FILE, b"f") + frame(DATA, b"x") + frame(END)
    stream = frame(FOLDER) + frame(FOLDER, b"no") + inner + frame(END) + frame(FOLDER, b"yes") + inner + frame(END) * 2
    with opened(str(tmp_path / "new")) as place:
        found = Receiver(place, "", meter(), refuse).receive(io.BytesIO(stream))
    assert asked == [("no",), ("yes",), ("yes", "f")]
    assert (found.skipped, listed(tmp_path / "new")) == ([("no", "not here")], {"yes/f": "x"})
    assert (found.files, found.size) == (1, 1)


# Streams that an agent could send instead of a copy, with the error for each.
HOSTILE = {
    "nothing": (b"", "it ended too early"),
    "half a frame": (frame(FOLDER)[:3], "it ended too early"),
    "half a name": (frame(FOLDER) + FRAME.pack(FILE, 0, 9) + b"x", "it ended too early"),
    "no end": (frame(FOLDER) + frame(FILE, b"f") + frame(DATA, b"x"), "it ended too early"),
    "a name for the copy itself": (frame(FILE, b"evil"), "frame 2 of 4 bytes is not allowed here"),
    "an end first": (frame(END), "frame 4 of 0 bytes is not allowed here"),
    "content without a file": (frame(FOLDER) + frame(DATA, b"x"), "frame 3 of 1 bytes is not allowed here"),
    "a file in a file": (frame(FILE) + frame(FILE), "frame 2 of 0 bytes is not allowed here"),
    "an unknown kind": (frame(FOLDER) + frame(99), "frame 99 of 0 bytes is not allowed here"),
    "an endless name": (frame(FOLDER) + endless(FILE), "frame 2 of 4294967295 bytes is not allowed here"),
    "an endless part": (frame(FILE) + endless(DATA), "frame 3 of 4294967295 bytes is not allowed here"),
    "an endless error": (endless(FAILED), "frame 6 of 4294967295 bytes is not allowed here"),
    "an empty part": (frame(FILE) + frame(DATA), "frame 3 of 0 bytes is not allowed here"),
    "an empty name": (frame(FOLDER) + frame(FILE, b""), "frame 2 of 0 bytes is not allowed here"),
    "an unknown reason": (frame(FOLDER) + frame(SKIPPED, b"x", 9), "an unknown reason"),
    "no reason": (frame(FOLDER) + frame(SKIPPED, b"x", 0), "an unknown reason"),
    "no bottom": (frame(FOLDER) + frame(FOLDER, b"d") * DEEPEST, "more than 100 directories inside each other"),
    **{
        f"the name {name!r}": (frame(FOLDER) + frame(kind, name), "an invalid name")
        for name in (b".", b"..", b"../x", b"/etc/x", b"a/b", b"a\0b", b"/")
        for kind in (FILE, FOLDER)
    },
}  # fmt: skip


@each("stream, said", HOSTILE.values())
def test_an_invalid_stream_writes_no_file(tmp_path_factory: pytest.TempPathFactory, stream: bytes, said: str) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.raises(BrokenStreamError) as broken:
        received(stream, folder / "new")
    assert str(broken.value) == said
    assert listed(folder) == {}
    assert {one.name for one in folder.iterdir()} <= {"new"}


def test_reports_the_error_of_the_other_end(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"^in the sandbox: /x: no\.\.\.$"):
        received(frame(FAILED, b"/x: no..."), tmp_path / "new")
    with pytest.raises(RefusedError, match=r"^in the sandbox: half way$"):
        received(frame(FILE) + frame(DATA, b"x") + frame(FAILED, b"half way"), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_both_ends_stop_copying_at_the_limits(source: Path, tmp_path: Path) -> None:
    size = "stopped at the limit of 70000 bytes"
    many = "stopped at the limit of 3 files and directories"
    big = frame(FILE) + frame(DATA, b"x" * tree.CHUNK) * 2
    with pytest.raises(RefusedError, match=size):
        received(big, tmp_path / "new", limits=meter(most_bytes=70_000))
    assert not (tmp_path / "new").exists()
    with pytest.raises(RefusedError, match=many):
        received(frame(FOLDER) + frame(SKIPPED, b"x", 1) * 3, tmp_path / "new", limits=meter(most_entries=3))
    (source / "c").write_bytes(b"x" * tree.CHUNK)
    with pytest.raises(RefusedError, match=size):
        sent(source, meter(most_bytes=70_000))
    with pytest.raises(RefusedError, match=many):
        sent(source, meter(most_entries=3))


def test_does_not_send_directories_that_are_nested_too_deeply(tmp_path: Path) -> None:
    tmp_path.joinpath(*["d"] * (DEEPEST + 1)).mkdir(parents=True)
    with pytest.raises(RefusedError, match=r"^d: more than 100 directories inside each other$"):
        sent(tmp_path)
    copied(tmp_path / "d" / "d", tmp_path / "new")


def test_names_directories_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source" / "closed").mkdir(parents=True)
    (tmp_path / "source" / "file").write_text("x")
    # Root can read everything, so modes would have no effect.
    listdir = os.listdir

    def refusing(handle: int) -> list[str]:
        names = listdir(handle)
        if not names:
            raise PermissionError
        return names

    monkeypatch.setattr(os, "listdir", refusing)
    found = copied(tmp_path / "source", tmp_path / "new")
    assert (found.files, found.skipped) == (1, [("closed", "it cannot be read")])


def test_a_read_that_fails_ends_the_copy(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_handle: int, _most: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "read", failing)
    with pytest.raises(RefusedError, match=r"^a: input/output error$"):
        sent(source)


def test_a_full_disk_ends_the_copy_and_leaves_no_part_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int, _data: object) -> int:
        raise OSError(28, "No space left on device")

    stream = frame(FOLDER) + frame(FILE, b"f") + frame(DATA, b"x") + frame(END) * 2
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(RefusedError) as refused:
        received(stream, tmp_path / "new")
    assert str(refused.value) == f"{tmp_path}/new/f: no space left on device"
    assert listed(tmp_path) == {}


def test_a_file_that_becomes_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "f").symlink_to("/etc/passwd")
    real = os.stat

    def before(name: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        found = real(name, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        return real(__file__) if name == "f" else found  # as if it were still a file

    monkeypatch.setattr(os, "stat", before)
    assert sent(tmp_path / "source") == frame(FOLDER) + frame(SKIPPED, b"f", 1) + frame(END)


def test_keeps_file_names_that_are_not_utf_8(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff\n\x1b[2J")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / name).write_text("x")
    copied(tmp_path / "source", tmp_path / "new")
    assert os.listdir(tmp_path / "new") == [name]  # noqa: PTH208 - names


def test_new_files_belong_to_the_owner_of_their_directory_under_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, int, int]] = []

    def chown(name: str, uid: int, gid: int, *, dir_fd: int, follow_symlinks: bool) -> None:
        assert os.stat(name, dir_fd=dir_fd)
        assert not follow_symlinks
        given.append((name if not name.startswith(".agent-sandbox.") else "staged", uid, gid))
        raise PermissionError

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", chown)
    received(frame(FOLDER) + frame(FILE, b"f") + frame(END) * 2, tmp_path / "new")
    owner = tmp_path.stat()
    assert given == [("new", owner.st_uid, owner.st_gid), ("staged", owner.st_uid, owner.st_gid)]


def test_tree_py_runs_as_a_program_without_the_package(source: Path, tmp_path: Path) -> None:
    def run(*words: str | Path, stdin: bytes = b"") -> bytes:
        return subprocess.run([*BOX, *words], input=stdin, capture_output=True, check=True).stdout

    limits = ("1000000", "1000")
    assert run("send", source, "-", *limits) == sent(source)
    failed = run("send", tmp_path / "no", "-", *limits)
    assert failed == frame(FAILED, f"{tmp_path}/no: no such file or directory".encode())
    answer = json.loads(run("receive", tmp_path, "new", *limits, stdin=sent(source)))
    assert (answer["files"], answer["size"], answer["more"]) == (2, tree.CHUNK + 2, 0)
    assert json.loads(run("receive", tmp_path, "new", *limits)) == {"error": "it ended too early"}
    assert json.loads(run("receive", tmp_path / "no" / "x", "new", *limits)) == {
        "error": f"{tmp_path}/no: no such file or directory"
    }
