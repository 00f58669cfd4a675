import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import pytest
from msgspec.structs import replace

from agent_sandbox.features.clones import checked as checking
from agent_sandbox.features.clones.checked import NOT_TAKEN, Size, Tree, checked_objects, measure, parse_tree
from agent_sandbox.features.clones.host_repository import open_repository
from agent_sandbox.host.process import Finished, capture
from agent_sandbox.problems import UserError
from clone_worlds import World, commit, git, make_world

FILE, FOLDER, LINK = b"100644 ab\0", b"40000 dir\0", b"160000 sub\0"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.fixture
def pack() -> Iterator[IO[bytes]]:
    with TemporaryFile() as file:
        yield file


def test_has_the_objects_of_clone_and_project_and_is_removed_afterwards(world: World, pack: IO[bytes]) -> None:
    new = commit(world.work)
    (old,) = world.clone.started.values()
    world.volume.pack((new,), (old,), pack, most=1 << 20)
    with checked_objects(world.repository, "fix-1") as checked:
        checked.add(pack, 1 << 20)
        assert checked.has([new, old, "1" * 40]) == {new, old}
        assert (checked.count(new, (old,)), checked.count("1" * 40, (old,))) == (1, 0)
        checked.require_complete([new], [old])
        assert len(checked.packs()) == 1
        folder = checked.folder
    assert not folder.exists()


def test_ignores_the_users_git_config_and_git_variables(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("[user]\n\tname = theirs\n")
    variables = {"GIT_CONFIG_GLOBAL": str(tmp_path / "config"), "GIT_DIR": "/nowhere", "GIT_OBJECT_DIRECTORY": "/no"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with checked_objects(world.repository, "fix-1") as checked:
        assert checked.run("config", "--get", "user.name").out == ""
        assert checked.has([*world.clone.started.values()]) == {*world.clone.started.values()}
        assert "theirs" not in checked.run("var", "-l").out


def test_refuses_a_damaged_pack(world: World, pack: IO[bytes]) -> None:
    pack.write(b"PACK" + os.urandom(100))
    with checked_objects(world.repository, "fix-1") as checked, pytest.raises(UserError) as raised:
        checked.add(pack, 1 << 20)
    (problem,) = raised.value.problems
    assert problem.what.startswith("its objects did not pass git's checks: pack version ")
    assert (problem.where, problem.hint) == ("fix-1", NOT_TAKEN)


def test_refuses_branches_without_a_commit_or_with_incomplete_commits(world: World, pack: IO[bytes]) -> None:
    new, tree = commit(world.work), git(world.host, "rev-parse", "HEAD^{tree}")
    lone = git(world.work, "commit-tree", "-p", new, "-m", "x", f"{new}^{{tree}}")
    world.volume.pack((lone,), (new,), pack, most=1 << 20)
    no_commit = "a branch does not point to a commit, or the clone did not send it"
    incomplete = "its commits are incomplete: neither the clone nor the project has all their objects"
    with checked_objects(world.repository, "fix-1") as checked:
        checked.add(pack, 1 << 20)
        for wanted, what in ((tree, no_commit), (new, no_commit), (lone, incomplete)):
            with pytest.raises(UserError, match=what):
                checked.require_complete([wanted], [*world.clone.started.values()])


def test_accepts_special_characters_in_the_path_of_the_project(tmp_path: Path) -> None:
    host = tmp_path / 'a:b "c" \\ d'
    host.mkdir()
    git(host, "init", "--quiet", "--initial-branch=main")
    first = commit(host)
    with checked_objects(open_repository(host), "fix-1") as checked:
        assert checked.has([first]) == {first}


def test_refuses_a_truncated_tree_in_the_project(world: World) -> None:
    """The agent of the project's own sandbox may have written it."""
    making = ("git", "hash-object", "-t", "tree", "--literally", "-w", "--stdin")
    made = subprocess.run(making, cwd=world.host, input=b"40000 a\0" + bytes(19), capture_output=True, check=True)
    bad = git(world.host, "commit-tree", "-m", "x", made.stdout.decode().strip())
    with (
        checked_objects(world.repository, "fix-1") as checked,
        pytest.raises(UserError, match="its objects did not pass git's checks: a tree is cut off"),
    ):
        checked.require_complete([bad], [bad])


def test_refuses_commits_whose_trees_git_cannot_list(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(argv: Sequence[str], **options: Any) -> Finished:  # noqa: ANN401 - the options of capture
        done = capture(argv, **options)
        return replace(done, code=128, out="") if "--batch-check=%(objectname)" in argv else done

    monkeypatch.setattr(checking, "capture", failing)
    commits = [*world.clone.started.values()]
    with checked_objects(world.repository, "fix-1") as checked, pytest.raises(UserError, match="incomplete"):
        checked.require_complete(commits, commits)


def test_parses_number_of_files_length_of_their_names_and_directories_of_a_tree() -> None:
    hashed = bytes(range(20))
    data = FILE + hashed + FOLDER + hashed + LINK + hashed
    assert parse_tree(data, 20) == Tree(2, len("ab\0sub\0"), ((len("dir/"), hashed.hex()),))
    assert parse_tree(b"", 20) == Tree()


def test_a_truncated_tree_is_an_error() -> None:
    with pytest.raises(ValueError, match="subsection not found"):
        parse_tree(b"100644 a", 20)
    with pytest.raises(ValueError, match="the last hash is cut off"):
        parse_tree(FOLDER + bytes(19), 20)


def test_measures_the_number_and_the_total_length_of_all_paths() -> None:
    trees = {"inner": Tree(2, 4, ()), "outer": Tree(1, 2, ((3, "inner"), (5, "inner")))}
    paths = ["x", *(f"{folder}/{name}" for folder in ("ab", "abcd") for name in "yz")]
    assert measure("outer", trees, {}) == Size(len(paths), sum(len(path) + 1 for path in paths))


def test_measures_trees_that_are_used_many_times_and_takes_missing_trees_as_empty() -> None:
    trees = {str(level): Tree(0, 0, ((2, str(level + 1)),) * 100) for level in range(100)} | {"100": Tree(1, 2)}
    assert measure("0", trees, {}).paths == 100**100
    assert measure("0", {"0": Tree(1, 2, ((2, "1"),))}, {}) == Size(1, 2)
