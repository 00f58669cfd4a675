import os
import re
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from agent_sandbox.features.clones import host_repository
from agent_sandbox.features.clones.host_repository import (
    last_line,
    open_repository,
    start_of,
    uncommitted_in,
    write_pack,
)
from agent_sandbox.problems import UserError
from clone_worlds import commit, git


@pytest.fixture
def host(tmp_path: Path) -> Path:
    folder = tmp_path / "host"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    return folder


def test_a_clone_gets_branches_tags_and_remotes_but_no_stashes_and_no_branches_of_clones(host: Path) -> None:
    first = commit(host)
    for name in ("refs/tags/v1", "refs/remotes/origin/main", "refs/remotes/box/fix-1/main", "refs/stash", "refs/x/y"):
        git(host, "update-ref", name, first)
    git(host, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    start = start_of(open_repository(host), host)
    names = ("refs/heads/main", "refs/remotes/origin/main", "refs/tags/v1")
    assert start.references == dict.fromkeys(names, first)
    assert (start.commit, start.branch) == (first, "main")


def test_accepts_unicode_line_separators_in_reference_names(host: Path) -> None:
    first = commit(host)
    git(host, "update-ref", "refs/heads/a\u2028b", first)
    assert open_repository(host).references("refs/heads") == dict.fromkeys(
        ("refs/heads/a\u2028b", "refs/heads/main"), first
    )


def test_uses_the_checked_out_commit_if_head_is_detached(host: Path) -> None:
    first = commit(host)
    git(host, "switch", "--quiet", "--detach")
    start = start_of(open_repository(host), host)
    assert (start.commit, start.branch) == (first, "")


def test_a_worktree_uses_the_repository_that_it_belongs_to(host: Path, tmp_path: Path) -> None:
    commit(host)
    git(host, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    repository = open_repository(tmp_path / "side")
    assert (repository.git, repository.objects) == (host / ".git", host / ".git" / "objects")
    assert start_of(repository, tmp_path / "side").branch == "side"


def test_refuses_a_subdirectory_of_a_repository_and_a_directory_without_a_repository(
    host: Path, tmp_path: Path
) -> None:
    commit(host, name="part/a.txt")
    with pytest.raises(UserError) as raised:
        open_repository(host / "part")
    assert str(raised.value) == (
        f"{host / 'part'}: only a whole repository can be cloned, and this directory is only a part of {host}; "
        "run agent-sandbox init there"
    )
    plain = tmp_path / "plain"
    plain.mkdir()
    with pytest.raises(UserError, match=re.escape(f"{plain}: not a git repository that can be cloned")):
        open_repository(plain)


def test_a_repository_without_a_commit_is_refused(host: Path) -> None:
    with pytest.raises(UserError) as raised:
        start_of(open_repository(host), host)
    assert str(raised.value) == (
        f"{host}: the repository has no commit yet; make a commit first: a clone contains only what is committed"
    )


def test_a_repository_with_too_many_references_is_refused(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_repository, "MOST_REFERENCES", 1)
    git(host, "update-ref", "refs/tags/v1", commit(host))
    with pytest.raises(UserError, match="the repository has 2 references; a clone gets 1 at most"):
        start_of(open_repository(host), host)


def test_a_repository_that_lacks_objects_is_refused(host: Path) -> None:
    commit(host)
    start = start_of(open_repository(host), host)
    blob = git(host, "rev-parse", "HEAD:a.txt")
    (host / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    pattern = r"git could not read all objects: .*; git fsck shows what is wrong"
    with pytest.raises(UserError, match=pattern), TemporaryFile() as file:
        write_pack(open_repository(host), start, file)


def test_reports_a_git_failure_with_gits_message(host: Path) -> None:
    commit(host)
    with pytest.raises(UserError, match="git nonsense failed: git: 'nonsense' is not a git command"):
        open_repository(host).output("nonsense")


def test_lists_changed_staged_and_new_files_as_uncommitted(host: Path) -> None:
    commit(host, name="a.txt")
    commit(host, name="b.txt")
    commit(host, name=".gitignore", text="ignored\n")
    assert uncommitted_in(host, "sha1") == ()
    (host / "a.txt").write_text("changed\n")
    (host / "b.txt").write_text("staged\n")
    git(host, "add", "b.txt")
    for name in ("new", "ignored"):
        (host / name).write_text("")
    (host / "folder").mkdir()
    (host / "folder" / "file").write_text("")
    assert uncommitted_in(host, "sha1") == ("b.txt", "a.txt", "folder/", "new")


def test_does_not_list_files_whose_timestamp_alone_changed_as_uncommitted(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("a.txt", "one\n"), ("b.txt", "two\n"), ("c.txt", "x" * 100)):
        commit(host, name=name, text=text)
    (host / "b.txt").write_text("new\n")
    for name in "abc":
        os.utime(host / f"{name}.txt", (1, 1))
    assert uncommitted_in(host, "sha1") == ("b.txt",)
    (host / "a.txt").chmod(0o755)
    assert uncommitted_in(host, "sha1") == ("a.txt", "b.txt")
    monkeypatch.setattr(host_repository, "MOST_COMPARED", 50)
    assert uncommitted_in(host, "sha1") == ("a.txt", "b.txt", "c.txt")


def test_comparing_files_runs_no_filter_and_follows_no_link(host: Path, tmp_path: Path) -> None:
    commit(host, name="a.txt", text="one\n")
    git(host, "config", "filter.evil.clean", f"touch {tmp_path}/trace; cat")
    commit(host, name=".gitattributes", text="* filter=evil\n")
    (tmp_path / "trace").unlink(missing_ok=True)
    (tmp_path / "elsewhere").write_text("one\n")
    (host / "a.txt").unlink()
    (host / "a.txt").symlink_to(tmp_path / "elsewhere")
    assert uncommitted_in(host, "sha1") == ("a.txt",)
    os.utime(host / ".gitattributes", (1, 1))
    assert uncommitted_in(host, "sha1") == ("a.txt",)
    assert not (tmp_path / "trace").exists()


def test_the_last_line_of_git_is_quoted_without_its_prefix() -> None:
    assert last_line("warning: x\nfatal: no\n\n") == "no"
    assert last_line(" \n") == "it printed nothing"
