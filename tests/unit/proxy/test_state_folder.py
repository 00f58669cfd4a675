import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.proxy.state_folder import FOLDERS, prepare_state

HINT = "remove it unless you know who made it, then start again"
LINK = "a symbolic link, which could lead to another user's files"


def refusal(state: Path) -> list[str]:
    with pytest.raises(UserError) as raised:
        prepare_state(state)
    return [str(problem) for problem in raised.value.problems]


def content(folder: Path) -> set[tuple[Path, int, int, int]]:
    found = [(path, path.lstat()) for path in folder.rglob("*")]
    return {(path, one.st_ino, one.st_mode, one.st_mtime_ns) for path, one in found}


def modes(state: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o7777 for path in state.iterdir()}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with the files of an earlier run."""
    state = tmp_path / "state"
    prepare_state(state)
    for name, mode in (("private/ca.pem", 0o600), ("log/traffic.jsonl", 0o640), ("ca/ca.crt", 0o644)):
        (state / name).touch()
        (state / name).chmod(mode)
    (state / "private" / "compiled").mkdir(mode=0o700)
    return state


def test_private_directories_are_only_their_owners_whatever_the_umask_and_an_earlier_version(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        prepare_state(tmp_path / "new" / "state")
    finally:
        os.umask(before)
    assert modes(tmp_path / "new" / "state") == FOLDERS
    assert FOLDERS == {"private": 0o700, "secrets": 0o700, "log": 0o700, "run": 0o700, "ca": 0o755}
    (tmp_path / "old" / "log").mkdir(parents=True, mode=0o755)
    prepare_state(tmp_path / "old")
    assert modes(tmp_path / "old") == FOLDERS


def test_a_second_run_takes_what_the_first_one_left(state: Path) -> None:
    with socket.socket(socket.AF_UNIX) as control:
        control.bind(str(state / "run" / "control.sock"))
    prepare_state(state)
    assert (state / "private" / "ca.pem").exists()


def replaced_by(act: Callable[[Path, Path], object]) -> Callable[[Path, Path], object]:
    def replace(path: Path, elsewhere: Path) -> None:
        path.rename(path.with_name("moved-away")) if path.is_dir() else path.unlink(missing_ok=True)
        act(path, elsewhere)

    return replace


def test_refuses_a_state_directory_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "state").symlink_to(tmp_path / "real")
    with pytest.raises(UserError) as caught:
        prepare_state(tmp_path / "state")
    assert LINK in str(caught.value)


def link(path: Path, elsewhere: Path) -> None:
    elsewhere.mkdir()
    path.symlink_to(elsewhere)


@pytest.mark.parametrize(
    ("path", "change", "what"),
    [
        *((name, replaced_by(link), LINK) for name in FOLDERS),
        ("private", replaced_by(lambda path, _: path.touch()), "not a directory"),
        ("run", replaced_by(lambda path, _: os.mkfifo(path)), "not a directory"),
        ("private/ca.pem", replaced_by(lambda path, _: path.symlink_to("/etc/passwd")), LINK),
        ("private/compiled", replaced_by(link), LINK),
        ("private/placeholders.key", lambda path, _: os.mkfifo(path), "not a file or directory"),
        ("log/traffic.jsonl", replaced_by(lambda path, _: os.mkfifo(path)), "not a file or directory"),
        ("log/traffic.jsonl.1", lambda path, there: path.symlink_to(there), LINK),
        ("ca/ca.crt", lambda path, there: there.hardlink_to(path), "has another name, a hard link"),
        ("private/ca.pem", lambda path, _: path.chmod(0o644), "other users may read it (mode 0644)"),
        ("private/ca.pem", lambda path, _: path.chmod(0o620), "other users may write it (mode 0620)"),
        ("secrets/a.b", lambda path, _: (path.touch(), path.chmod(0o604)), "other users may read it (mode 0604)"),
        ("private/compiled", lambda path, _: path.chmod(0o770), "other users may write it (mode 0770)"),
        ("ca/gitconfig", lambda path, _: (path.touch(), path.chmod(0o646)), "other users may write it (mode 0646)"),
        ("ca", lambda path, _: path.chmod(0o1777), "other users may write it (mode 1777)"),
        ("", lambda path, _: path.chmod(0o775), "other users may write it (mode 0775)"),
    ],
)
def test_refuses_what_another_user_could_have_prepared_and_changes_nothing(
    state: Path, tmp_path: Path, path: str, change: Callable[[Path, Path], object], what: str
) -> None:
    change(state / path, tmp_path / "elsewhere")
    before = content(tmp_path)
    assert refusal(state) == [f"{state / path}: {what}; {HINT}"]
    assert content(tmp_path) == before


def test_refuses_every_path_of_another_user_at_once(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    paths = [state, *sorted(state.rglob("*"))]
    what = f"belongs to another user: uid {owner}, not 4711"
    assert sorted(refusal(state)) == sorted(f"{path}: {what}; {HINT}" for path in paths)


def test_names_what_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "file" / "state") == [f"{tmp_path / 'file' / 'state'}: cannot be used: not a directory"]
