"""Clones of a hostile agent have no effect on the host machine when `fetch` and `diff` read them.

The commands for the clone's container run in a directory here, with INSIDE set. A program that runs elsewhere leaves a
trace. Some tests replace the output of these commands, because the agent controls all of it.
"""

import hashlib
import os
import shutil
import struct
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from agent_sandbox.features.clones import checked as checking
from agent_sandbox.features.clones import fetch as fetching
from agent_sandbox.features.clones import volume as volumes
from agent_sandbox.features.clones.checked import Tree, parse_tree
from agent_sandbox.features.clones.commands.diff import difference
from agent_sandbox.features.clones.fetch import checked_branches, one_at_a_time
from agent_sandbox.host.process import Finished
from agent_sandbox.problems import UserError
from clone_worlds import World, commit, git, make_world

BOX = "refs/remotes/box/fix-1/"
HOOKS = (
    "reference-transaction",
    "post-checkout",
    "post-merge",
    "update",
    "post-update",
    "pre-receive",
    "post-index-change",
)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A clone, and a program of the agent that leaves `trace` if it runs outside."""
    made = make_world(tmp_path)
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\n[ -n "$INSIDE" ] || : >{tmp_path}/trace\ncat\n')
    program.chmod(0o755)
    monkeypatch.setattr(made.driver, "inside", {"INSIDE": "1"})
    return made


def state(world: World) -> tuple[str, str, list[str]]:
    """Return what must not change on the host machine: settings, other references and files."""
    others = [line for line in git(world.host, "for-each-ref").splitlines() if BOX not in line]
    files = sorted(str(path.relative_to(world.host)) for path in world.host.rglob("*") if ".git/" not in str(path))
    return (world.host / ".git" / "config").read_text(), "\n".join(others), files


def shown(world: World) -> str:
    with checked_branches(world.volume, world.clone, world.repository, world.status()) as (checked, branches):
        return "".join(difference(checked, world.clone, one) for one in branches)


def no_trace(world: World) -> bool:
    return not world.host.with_name("trace").exists()


def hook(world: World, _program: str) -> None:
    for name in HOOKS:
        (world.work / ".git" / "hooks").mkdir(exist_ok=True)
        (world.work / ".git" / "hooks" / name).symlink_to(world.host.with_name("program"))


def settings(world: World, program: str) -> None:
    for key in (
        *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "diff.external", "diff.evil.textconv"),
        *("filter.evil.smudge", "filter.evil.clean", "uploadpack.packObjectsHook", "core.gitProxy", "gpg.program"),
        *("core.alternateRefsCommand", "credential.helper", "diff.evil.command"),
    ):
        git(world.work, "config", key, program)
    git(world.work, "config", "core.hooksPath", str(world.host.parent))
    commit(world.work, ".gitattributes", "* filter=evil diff=evil\n")


def attributes_of_the_users_drivers(world: World, program: str) -> None:
    """The user has drivers. A repository can only choose them where the user checks it out."""
    for key in ("diff.evil.textconv", "diff.evil.command", "filter.evil.clean", "filter.evil.smudge"):
        git(world.host, "config", key, program)
    commit(world.work, ".gitattributes", "* filter=evil diff=evil\n")


def submodules(world: World, program: str) -> None:
    text = f'[submodule "x"]\n\tpath = x\n\turl = ext::{program}\n\tupdate = none\n'
    commit(world.work, ".gitmodules", text)
    git(world.work, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},x")
    git(world.work, "commit", "--quiet", "--message", "link")


def large_files(world: World, _program: str) -> None:
    commit(world.work, ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    commit(world.work, ".lfsconfig", "[lfs]\n\turl = https://example.invalid/\n")


def replaced(world: World, _program: str) -> None:
    other = commit(world.work, text="shown instead\n")
    git(world.work, "replace", "HEAD", "HEAD^")
    (world.work / ".git" / "info").mkdir(exist_ok=True)
    (world.work / ".git" / "info" / "grafts").write_text(f"{other}\n")


def linked(world: World, _program: str) -> None:
    (world.work / ".git").rename(world.work / "elsewhere")
    (world.work / ".git").symlink_to("elsewhere")
    (world.work / "out").symlink_to("/etc/passwd")
    git(world.work, "add", "--force", "out")


def alternates(world: World, _program: str) -> None:
    info = world.work / ".git" / "objects" / "info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_text(f"{world.host}/.git/objects\n/etc\n")


@pytest.mark.parametrize(
    "attack",
    [hook, settings, attributes_of_the_users_drivers, submodules, large_files, replaced, linked, alternates],
    ids=lambda attack: attack.__name__,
)
def test_hostile_git_data_of_a_clone_has_no_effect_on_the_host_machine(
    world: World, attack: Callable[[World, str], None]
) -> None:
    attack(world, str(world.host.with_name("program")))
    git(world.work, "commit", "--quiet", "--allow-empty", "--no-verify", "--message", "last")
    tip, before = git(world.work, "--no-replace-objects", "rev-parse", "HEAD"), state(world)
    world.host.with_name("trace").unlink(missing_ok=True)  # left by the agent's own commits
    shown(world)
    world.fetch()
    assert world.fetched() == {f"{BOX}main": tip}
    git(world.host, "fsck", "--strict")
    if attack is not attributes_of_the_users_drivers:
        assert state(world) == before
    assert no_trace(world)
    assert not (world.host / ".git" / "modules").exists()


def tree(world: World, *entries: tuple[str, str, str]) -> str:
    """Write a tree with any entries, and a commit of it. Git itself would refuse to."""
    data = b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(what) for mode, name, what in entries)
    words = ("hash-object", "-t", "tree", "-w", "--literally", "--stdin")
    done = git_bytes(world.work, data, *words)
    made = git(world.work, "commit-tree", "-p", "HEAD", "-m", "x", done)
    git(world.work, "update-ref", "refs/heads/evil", made)
    return made


def git_bytes(folder: Path, data: bytes, *words: str) -> str:
    (folder.parent / "input").write_bytes(data)
    return git(folder, *words[:-1], str(folder.parent / "input"))


def blob(world: World, text: str) -> str:
    return git(world.work, "hash-object", "-w", "--stdin", stdin=text)


@pytest.mark.parametrize(
    ("name", "mode", "text"),
    [
        (".git", "100644", "x"),
        (".GIT", "100644", "x"),
        ("git~1", "100644", "x"),
        (".g\u200cit", "100644", "x"),
        ("..", "100644", "x"),
        ("a/b", "100644", "x"),
        (".gitmodules", "120000", "../elsewhere"),
        (".gitmodules", "100644", '[submodule "../x"]\n\tpath = x\n\turl = x\n'),
        (".gitmodules", "100644", '[submodule "x"]\n\tpath = x\n\turl = -u./evil\n'),
        (".gitmodules", "100644", '[submodule "x"]\n\tpath = -x\n\turl = x\n'),
        (".gitmodules", "100644", '[submodule "x"]\n\tpath = x\n\turl = x\n\tupdate = !evil\n'),
    ],
)
def test_objects_that_fail_gits_checks_are_not_fetched(world: World, name: str, mode: str, text: str) -> None:
    tree(world, (mode, name, blob(world, text)))
    packs = sorted((world.host / ".git" / "objects").rglob("*"))
    with pytest.raises(UserError, match="its objects did not pass git's checks"):
        world.fetch()
    assert world.fetched() == {}
    assert sorted((world.host / ".git" / "objects").rglob("*")) == packs


def lie(world: World, monkeypatch: pytest.MonkeyPatch, listing: bytes, pack: bytes = b"") -> None:
    """Replace the output of the clone's container."""

    def spawn(_: object, *argv: str, **_options: object) -> SimpleNamespace:
        def capture(*, into: IO[bytes], **_options: object) -> Finished:
            into.write(listing if volumes.LIST in argv else pack)
            return Finished(argv=(), code=0, out="")

        return SimpleNamespace(capture=capture)

    monkeypatch.setattr(world.driver, "spawn", spawn)


def test_references_with_malformed_names_are_not_fetched(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (head,) = world.clone.started.values()
    odd = ("../../../heads/main", "/refs/heads/main", "x\x1b]0;title\x07", "a\u202eb", "-d", "x.lock", "HEAD ", "@{u}")
    names = "".join(f"{head} refs/heads/{name}\n" for name in odd)
    others = f"{head} refs/remotes/origin/main\n{head} refs/replace/{head}\n{head} refs/stash/x\n"
    lie(world, monkeypatch, f"{names}{others}HEAD refs/heads/../x\n\0".encode())
    before = state(world)
    assert [*world.status().listing.refused] == [*odd]
    world.fetch()
    assert (world.fetched(), state(world)) == ({}, before)


@pytest.mark.parametrize(
    ("link", "file"),
    [("refs/remotes", ""), ("refs/remotes/box/fix-1", ""), ("logs/refs", ""), (f"logs/{BOX}main", ".rc")],
)
def test_fetch_refuses_symbolic_links_among_the_projects_references(world: World, link: str, file: str) -> None:
    """The agent of the project's own sandbox can write there."""
    outside = world.host.parent / "outside"
    outside.mkdir()
    (outside / ".rc").write_text("")
    place = world.host / ".git" / link
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(outside / file)
    commit(world.work)
    with pytest.raises(UserError) as refused:
        world.fetch()
    (problem,) = refused.value.problems
    assert str(problem) == f"{place}: git would follow this symbolic link; if it is not yours, remove it"
    assert [(path.name, path.read_text()) for path in outside.rglob("*")] == [(".rc", "")]


@pytest.mark.parametrize(
    ("place", "leads"),
    [
        ("refs", ""),
        ("refs/remotes/box", ""),
        ("refs/remotes/box/fix-1", ""),
        ("refs/remotes/box/fix-1/main.lock", ".rc"),
        ("logs", ""),
        ("logs/refs/remotes/box/fix-1", ""),
        (f"logs/{BOX}main", ".rc"),
        ("objects", ""),
        ("objects/pack", ""),
    ],
)
def test_fetch_does_not_write_through_a_symbolic_link_made_after_the_check(
    world: World, monkeypatch: pytest.MonkeyPatch, place: str, leads: str
) -> None:
    outside = world.host.parent / "outside"
    outside.mkdir()
    (outside / ".rc").write_text("")
    commit(world.work)
    world.fetch()
    git(world.work, "commit", "--quiet", "--allow-empty", "--message", "more")

    def swap(*_: object) -> None:
        found = world.host / ".git" / place
        if found.exists():
            found.rename(outside.with_name("away"))
        found.symlink_to(outside / leads)

    monkeypatch.setattr(fetching, "_require_no_links", swap)
    with pytest.raises(UserError):
        world.fetch()
    assert [(path.name, path.read_text()) for path in outside.rglob("*")] == [(".rc", "")]


def test_fetch_does_not_write_the_target_of_a_symbolic_reference(world: World) -> None:
    git(world.host, "symbolic-ref", f"{BOX}main", "refs/heads/other")
    commit(world.work)
    before = state(world)
    world.fetch()
    assert (git(world.host, "rev-parse", f"{BOX}main"), state(world)) == (git(world.work, "rev-parse", "HEAD"), before)


@pytest.mark.parametrize("kind", ["HEAD^{tree}", "HEAD:a.txt", "v1"])
def test_a_branch_that_is_not_a_commit_is_not_fetched(world: World, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    git(world.host, "tag", "--annotate", "--message", "x", "v1")
    lie(world, monkeypatch, f"{git(world.host, 'rev-parse', kind)} refs/heads/x\nHEAD \n\0".encode())
    with pytest.raises(UserError):
        world.fetch()
    assert world.fetched() == {}


def test_a_stash_passes_the_same_checks_as_a_branch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Try a stash with a file in `.git`, one that is not a commit, and invalid object names."""
    tree(world, ("100644", ".git", blob(world, "x")))
    git(world.work, "update-ref", "refs/stash", git(world.work, "rev-parse", "refs/heads/evil"))
    git(world.work, "update-ref", "-d", "refs/heads/evil")
    with pytest.raises(UserError, match="its objects did not pass git's checks"):
        world.fetch()
    lie(world, monkeypatch, f"{git(world.host, 'rev-parse', 'HEAD^{tree}')} refs/stash\n\0".encode())
    with pytest.raises(UserError):
        world.fetch()
    lie(world, monkeypatch, b"../../../heads/main refs/stash\n\x1b[2J refs/stash\n\0")
    assert [*world.status().listing.refused.values()] == ["it does not name a commit"] * 2
    world.fetch()
    assert world.fetched() == {}


def entry(kind: int, size: int, data: bytes) -> bytes:
    """Return an entry of a pack: a head with kind and size, and the compressed data."""
    head, size = [(kind << 4) | (size & 15)], size >> 4
    while size:
        head[-1] |= 128
        head.append(size & 127)
        size >>= 7
    return bytes(head) + zlib.compress(data)


def packed(*entries: bytes) -> bytes:
    body = struct.pack(">4sII", b"PACK", 2, len(entries)) + b"".join(entries)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def number(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def bomb(size: int) -> bytes:
    """Return a pack of a few kilobytes with an object of `size` bytes: a delta of a smaller object."""
    base = bytes(1 << 24)
    part = (1 << 24) - 1
    copies = size // part
    delta = number(len(base)) + number(copies * part) + b"\xf0\xff\xff\xff" * copies
    name = hashlib.sha1(f"blob {len(base)}\0".encode() + base, usedforsecurity=False).digest()
    head = entry(7, len(delta), b"")
    at = len(head) - len(zlib.compress(b""))
    return packed(entry(3, len(base), base), head[:at] + name + zlib.compress(delta))


@pytest.mark.parametrize("pack", [b"", b"PACK", packed(), bomb(1 << 30)], ids=["none", "cut", "empty", "bomb"])
def test_a_pack_that_is_broken_or_needs_too_much_memory_is_not_fetched(
    world: World, monkeypatch: pytest.MonkeyPatch, pack: bytes
) -> None:
    assert len(pack) < 1 << 20
    monkeypatch.setattr(checking, "MOST_MEMORY", 1 << 29)
    lie(world, monkeypatch, f"{'1' * 40} refs/heads/x\nHEAD \n\0".encode(), pack)
    with pytest.raises(UserError) as raised:
        world.fetch()
    assert len(raised.value.problems) == 1
    assert world.fetched() == {}


def test_an_incomplete_history_is_not_fetched(world: World) -> None:
    """A `shallow` file in the clone ends the history early."""
    commit(world.work)
    middle = commit(world.work, text="two\n")
    commit(world.work, text="three\n")
    (world.work / ".git" / "shallow").write_text(f"{middle}\n")
    with pytest.raises(UserError, match="its commits are incomplete"):
        world.fetch()
    assert world.fetched() == {}
    git(world.host, "fsck", "--strict")


def test_git_quotes_file_names_with_escape_codes_in_a_diff(world: World) -> None:
    commit(world.work, "a\x1b]52;c;x\x07", "b\x1b[2J\n")
    text = shown(world)
    assert '"a/a\\033]52;c;x\\a"' in text
    assert "\x1b]" not in text


def test_a_tree_with_too_many_paths_is_not_fetched(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten levels, each with the same directory ten times, are 10,000,000,000 paths."""
    monkeypatch.setattr(checking, "MOST_PATHS", 100_000)
    inner = git(world.work, "mktree", stdin=f"100644 blob {blob(world, 'x')}\tx\n")
    for _ in range(10):
        inner = git(world.work, "mktree", stdin="".join(f"040000 tree {inner}\t{name}\n" for name in range(10)))
    made = git(world.work, "commit-tree", "-p", "HEAD", "-m", "x", inner)
    git(world.work, "update-ref", "refs/heads/many", made)
    for command in (shown, World.fetch):
        with pytest.raises(UserError, match="a branch has more files than can be compared"):
            command(world)
    assert world.fetched() == {}


def test_reads_a_tree_that_many_branches_share_only_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand branches, each with a million paths, would keep `fetch` busy for an hour."""
    read: list[int] = []

    def counted(data: bytes, hash_bytes: int) -> Tree:
        read.append(len(data))
        return parse_tree(data, hash_bytes)

    monkeypatch.setattr(checking, "parse_tree", counted)
    inner = git(world.work, "mktree", stdin="".join(f"100644 blob {blob(world, 'x')}\t{name}\n" for name in range(10)))
    for _ in range(4):
        inner = git(world.work, "mktree", stdin="".join(f"040000 tree {inner}\t{name}\n" for name in range(10)))
    for number_ in range(20):
        made = git(world.work, "commit-tree", "-p", "HEAD", "-m", str(number_), inner)
        git(world.work, "update-ref", f"refs/heads/many-{number_}", made)
    world.fetch()
    assert len(world.fetched()) == 20
    assert len(read) == 5


def test_checking_new_commits_has_a_time_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(world.work)
    monkeypatch.setattr(checking, "SECONDS", 0.0)
    with pytest.raises(UserError, match="checking its new commits takes longer than 15 minutes"):
        world.fetch()
    assert world.fetched() == {}


def test_concurrent_fetches_do_not_corrupt_the_repository(world: World) -> None:
    new = commit(world.work)
    said: list[str] = []

    def run() -> None:
        try:
            with one_at_a_time(world.clone):
                world.fetch()
            said.append("fetched")
        except UserError as error:
            said.append(error.problems[0].what)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert {*said} <= {"fetched", "another command is using this clone"}
    assert "fetched" in said
    assert world.fetched() == {f"{BOX}main": new}
    git(world.host, "fsck", "--strict")


def test_an_overlong_list_of_changed_files_is_cut(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "MOST_LISTED", 10_000)
    for number_ in range(400):
        (world.work / f"{number_}{'x' * 50}").write_text("")
    found = world.status().listing
    assert not found.complete
    assert 0 < len(found.changed) < 400


def test_fetch_ignores_git_environment_variables(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A hook of the user, which can call the command, sets these variables."""
    new = commit(world.work)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "other"))
    world.fetch()
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name)
    assert world.fetched() == {f"{BOX}main": new}
    assert os.path.lexists(tmp_path / "other") is False
