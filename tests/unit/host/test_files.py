import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_sandbox.host.files import (
    A_LINK,
    is_real,
    make_folders,
    read_bytes,
    read_text,
    remove_leftovers,
    write_all,
)
from agent_sandbox.problems import Problem, UserError

FOLDER = ".devcontainer"
FILE = f"{FOLDER}/f"


def problems(root: Path, path: str = FILE) -> tuple[Problem, ...]:
    with pytest.raises(UserError) as raised:
        read_text(root, path)
    return raised.value.problems


def tree(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / FOLDER).mkdir()
    return tmp_path


def test_read_text_returns_none_for_a_missing_file(tmp_path: Path) -> None:
    assert read_text(tmp_path, FILE) is None
    assert read_text(tmp_path, ".env") is None


def test_read_text_keeps_line_endings(root: Path) -> None:
    (root / FILE).write_bytes("ü\r\n".encode())
    assert read_text(root, FILE) == "ü\r\n"


def test_bytes_are_read_up_to_a_limit(root: Path) -> None:
    (root / FILE).write_bytes(b"abcdef")
    assert read_bytes(root, FILE, limit=3) == b"abc"


def test_a_symbolic_link_is_not_followed(root: Path) -> None:
    (root / "secret").write_text("x")
    (root / FILE).symlink_to(root / "secret")
    (problem,) = problems(root)
    assert (problem.where, problem.hint) == (str(root / FILE), A_LINK)


def test_a_directory_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "f").write_text("x")
    (tmp_path / FOLDER).symlink_to("elsewhere")
    assert problems(tmp_path) == (Problem(where=str(tmp_path / FOLDER), what="cannot be used", hint=A_LINK),)


def test_rejects_a_named_pipe_without_hanging(root: Path) -> None:
    os.mkfifo(root / FILE)
    assert problems(root)[0].what == "cannot be used: not a regular file"


def test_rejects_a_directory_in_place_of_a_file(root: Path) -> None:
    (root / FILE).mkdir()
    assert problems(root)[0].what == "cannot be used: is a directory"


def test_rejects_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("x")
    assert problems(tmp_path)[0].what == "cannot be used: not a directory"


def test_rejects_a_file_larger_than_1_mib(root: Path) -> None:
    with (root / FILE).open("wb") as file:
        file.truncate(50 << 20)
    assert problems(root)[0].what == "larger than 1 MiB"


def test_reports_the_position_of_the_first_byte_that_is_not_utf8(root: Path) -> None:
    (root / FILE).write_bytes(b"ab\xff")
    assert problems(root)[0].what == "not UTF-8 text at byte 2"


def test_writes_all_files_and_creates_their_directory(tmp_path: Path) -> None:
    write_all(tmp_path, {FILE: "1", ".env": "2"})
    assert tree(tmp_path) == {FILE: "1", ".env": "2"}


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("old")
    (tmp_path / ".env").chmod(0o600)
    write_all(tmp_path, {".env": "new"})
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    assert tree(tmp_path) == {".env": "new"}


@pytest.fixture
def nobody_else() -> Iterator[None]:
    """Set a umask that hides new files from others."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def modes(root: Path, *paths: str) -> list[str]:
    return [oct(stat.S_IMODE((root / path).stat().st_mode)) for path in paths]


@pytest.mark.usefixtures("nobody_else")
def test_others_can_read_only_shared_files_whatever_the_umask(tmp_path: Path) -> None:
    write_all(tmp_path, {f"{FOLDER}/a": "", FILE: "", ".env": "", "own/f": ""}, shared={FILE})
    assert modes(tmp_path, FOLDER, FILE) == ["0o755", "0o644"]
    assert modes(tmp_path, f"{FOLDER}/a", ".env", "own", "own/f") == ["0o600", "0o600", "0o700", "0o600"]


@pytest.mark.usefixtures("nobody_else")
def test_keeps_restrictive_modes_of_existing_files_and_directories(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FILE).touch()
    write_all(tmp_path, {FILE: "1", f"{FOLDER}/new": ""}, shared={FILE, f"{FOLDER}/new"})
    assert modes(tmp_path, FOLDER, FILE, f"{FOLDER}/new") == ["0o700", "0o600", "0o644"]


def test_files_that_root_writes_get_the_owner_of_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[object, ...]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _, uid, gid: given.append((uid, gid)))
    monkeypatch.setattr(os, "chown", lambda *given_to, **how: given.append((*given_to, how["follow_symlinks"])))
    owner = (tmp_path.stat().st_uid, tmp_path.stat().st_gid)
    write_all(tmp_path, {".env": "A=1\n"})
    assert given == [owner]
    given.clear()
    write_all(tmp_path, {f"{FOLDER}/x": ""})
    make_folders(tmp_path, ("hooks",))
    assert given == [(FOLDER, *owner, False), owner, ("hooks", *owner, False)]


def test_rewrites_an_unchanged_file_only_if_it_has_a_second_name_or_another_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, other = tmp_path / "x", tmp_path / "other"

    def is_left() -> bool:
        before = file.stat().st_ino
        write_all(tmp_path, {"x": "a"})
        assert file.read_text() == "a"
        return file.stat().st_ino == before

    file.write_text("a")
    assert is_left()
    other.hardlink_to(file)
    assert not is_left()
    assert is_left()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert not is_left()


def test_writing_all_files_writes_through_no_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("old")
    (tmp_path / ".env").symlink_to("mine")
    with pytest.raises(UserError) as raised:
        write_all(tmp_path, {FILE: "1", ".env": "2"})
    assert raised.value.problems[0].hint == A_LINK
    assert (tmp_path / "mine").read_text() == "old"
    assert not (tmp_path / FOLDER).exists()


def test_does_not_write_into_a_directory_that_is_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / FOLDER).symlink_to("elsewhere")
    with pytest.raises(UserError):
        write_all(tmp_path, {".env": "2", FILE: "1"})
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("stop", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", range(6))
def test_an_error_or_interrupt_at_any_point_leaves_all_files_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: BaseException, call: int
) -> None:
    (tmp_path / ".env").write_text("old")
    calls = iter(range(100))

    def fsync(_: int) -> None:
        if next(calls) == call:
            raise stop

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises((UserError, KeyboardInterrupt)):
        write_all(tmp_path, {FILE: "1", f"{FOLDER}/g": "2", ".env": "new"})
    assert tree(tmp_path) == {".env": "old"}
    assert not (tmp_path / FOLDER).exists()


def test_reports_a_full_disk_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(UserError) as raised:
        write_all(tmp_path, {".env": "x"})
    assert raised.value.problems == (
        Problem(
            where=str(tmp_path / ".env"),
            what="cannot be used: no space left on device",
            hint="free some space and run it again; nothing was changed",
        ),
    )


def test_an_interrupted_write_keeps_a_directory_that_existed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / FOLDER).mkdir()

    def fsync(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(KeyboardInterrupt):
        write_all(tmp_path, {FILE: "1"})
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_write_all_raises_if_the_project_directory_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        write_all(tmp_path / "gone", {".env": "x"})


def test_make_folders_creates_missing_folders_and_keeps_existing_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    make_folders(tmp_path, ["a", "b", "b/c"])
    assert ((tmp_path / "a").read_text(), (tmp_path / "b" / "c").is_dir()) == ("mine", True)


def test_make_folders_does_not_follow_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".git").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError):
        make_folders(tmp_path / "project", [".git/hooks"])
    assert list((tmp_path / "elsewhere").iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from agent_sandbox.host import files
os.replace = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
files.write_all(Path(sys.argv[1]), {".env": "new", sys.argv[2]: "new"})
"""


def kill_while_staging(root: Path) -> list[str]:
    """Kill a command between staging and placing, and return the names of the files that it left."""
    done = subprocess.run([sys.executable, "-P", "-c", KILLED, root, FILE], check=False)
    assert done.returncode == -signal.SIGKILL
    return sorted(path.name for path in root.rglob("*.tmp"))


def test_the_next_command_removes_the_temporary_files_of_a_killed_command(root: Path) -> None:
    env, file = kill_while_staging(root)
    assert env.startswith("..env.")
    assert file.startswith(".f.")
    write_all(root, {FILE: "newer"})
    assert [path.name for path in root.rglob("*.tmp")] == [env]
    remove_leftovers(root, [".env", FILE, "no/such/folder"])
    assert tree(root) == {FILE: "newer"}


HEX = "0123456789ab"
NOT_OURS = (
    *(f"f.{HEX}.tmp", ".f.tmp", f".f.{HEX}", f".f.{HEX[:-1]}.tmp", f".f.{HEX}c.tmp", f".f.{HEX.upper()}.tmp"),
    *(f".g.{HEX}.tmp", f".xf.{HEX}.tmp", f".f.{HEX}.tmp.bak", f".f.{HEX}.tmp\n", ".f.wordsandmore.tmp"),
)


def test_remove_leftovers_keeps_all_other_files(root: Path) -> None:
    folder = root / FOLDER
    for name in NOT_OURS:
        (folder / name).write_text("a user's")
    (folder / f".f.{'1' * 12}.tmp").symlink_to(root / "target")
    (folder / f".f.{'2' * 12}.tmp").mkdir()
    os.mkfifo(folder / f".f.{'3' * 12}.tmp")
    (root / "target").write_text("a user's")
    os.link(root / "target", folder / f".f.{'4' * 12}.tmp")
    before = sorted(path.name for path in folder.iterdir())
    remove_leftovers(root, [FILE])
    assert sorted(path.name for path in folder.iterdir()) == before


def test_remove_leftovers_keeps_the_files_of_another_user(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = root / FOLDER / f".f.{HEX}.tmp"
    theirs.write_text("x")
    somebody_else = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody_else)
    remove_leftovers(root, [FILE])
    assert theirs.exists()


def test_remove_leftovers_keeps_files_that_another_command_is_writing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = os.replace

    def meanwhile(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        remove_leftovers(root, [FILE])
        place(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "replace", meanwhile)
    write_all(root, {FILE: "new"})
    assert tree(root) == {FILE: "new"}


@pytest.mark.parametrize(("path", "expected"), [("d", True), ("d/f", True), ("gone", False), ("link/f", False)])
def test_is_real_accepts_only_existing_paths_that_lead_through_no_link(
    tmp_path: Path, path: str, *, expected: bool
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").touch()
    (tmp_path / "link").symlink_to("d")
    assert is_real(tmp_path, path) is expected
