import os
from pathlib import Path

import pytest

from agent_sandbox.features.clones.repository_writes import Update, copy_pack, locked_references
from agent_sandbox.problems import UserError
from clone_worlds import commit, git

BOX = "refs/remotes/box/fix-1/"
ZEROS = "0" * 40


@pytest.fixture
def host(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path)
    return tmp_path


def update(host: Path, name: str, before: str = ZEROS) -> Update:
    return Update(reference=f"{BOX}{name}", commit=git(host, "rev-parse", "HEAD"), before=before)


def test_writes_references_and_reflogs_that_git_reads(host: Path) -> None:
    first = update(host, "topic/x")
    with locked_references(host / ".git", [first], "fetched"):
        assert git(host, "for-each-ref", BOX) == ""
    commit(host, text="two\n")
    with locked_references(host / ".git", [update(host, "topic/x", first.commit)], "fetched again"):
        pass
    assert git(host, "rev-parse", f"{BOX}topic/x") == git(host, "rev-parse", "HEAD")
    assert git(host, "reflog", "show", "--format=%H %gs", f"{BOX}topic/x").splitlines() == [
        f"{git(host, 'rev-parse', 'HEAD')} fetched again",
        f"{first.commit} fetched",
    ]
    git(host, "fsck", "--strict")


def test_after_an_exception_no_reference_is_written_and_no_lock_is_left(host: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked_references(host / ".git", [update(host, "a"), update(host, "b")], ""):
        raise ZeroDivisionError
    assert git(host, "for-each-ref", BOX) == ""
    assert not [*(host / ".git").rglob("*.lock")]


def test_keeps_a_lock_that_git_takes_right_after_the_write(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.rename

    def and_lock_again(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        os.close(os.open(source, os.O_CREAT | os.O_EXCL | os.O_WRONLY, dir_fd=src_dir_fd))

    monkeypatch.setattr(os, "rename", and_lock_again)
    with locked_references(host / ".git", [update(host, "a"), update(host, "b")], ""):
        pass
    assert sorted(lock.name for lock in (host / ".git").rglob("*.lock")) == ["a.lock", "b.lock"]


def test_writes_no_reference_if_git_is_changing_one_of_them(host: Path) -> None:
    lock = host / ".git" / f"{BOX}b.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    with (
        pytest.raises(UserError) as raised,
        locked_references(host / ".git", [update(host, "a"), update(host, "b")], ""),
    ):
        pass
    assert str(raised.value) == (
        f"{host}/.git/{BOX}b: a git command is changing this reference; "
        f"run it again; if no git command runs in the project, remove {lock}"
    )
    assert git(host, "for-each-ref", BOX) == ""
    assert [*(host / ".git").rglob("*.lock")] == [lock]


def test_replaces_empty_directories_at_the_paths_of_a_reference_and_its_log(host: Path) -> None:
    for name in ("", "logs/"):
        (host / ".git" / f"{name}{BOX}main").mkdir(parents=True)
    with locked_references(host / ".git", [update(host, "main")], ""):
        pass
    assert git(host, "rev-parse", f"{BOX}main") == git(host, "rev-parse", "HEAD")


def test_does_not_write_a_reflog_that_is_a_hard_link(host: Path) -> None:
    log = host / ".git" / "logs" / f"{BOX}main"
    log.parent.mkdir(parents=True)
    (host / "other").write_text("")
    log.hardlink_to(host / "other")
    with (
        pytest.raises(UserError, match="not a regular file, or a hard link to another one; remove it"),
        locked_references(host / ".git", [update(host, "main")], ""),
    ):
        pass
    assert (host / "other").read_text() == ""


def test_a_pack_is_copied_with_its_index(host: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    git(other, "init", "--quiet")
    new = commit(other, text="new\n")
    git(other, "repack", "-a", "-d", "--quiet")
    (pack,) = (other / ".git" / "objects" / "pack").glob("*.pack")
    for _ in range(2):
        copy_pack(host / ".git", pack)
    assert git(host, "cat-file", "-t", new) == "commit"
    git(host, "fsck", "--strict")
    assert not [*(host / ".git").rglob("tmp_*")]
