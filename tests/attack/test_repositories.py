"""Protected paths include every path in a project that git on the host machine acts on."""

import os
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from random import Random

import pytest

from agent_sandbox.features.protect import protected
from agent_sandbox.features.protect.protected import candidates, find_protected
from agent_sandbox.host.files import is_real
from agent_sandbox.host.git import repositories
from agent_sandbox.host.git.git_config import Patience
from agent_sandbox.problems import UserError
from agent_sandbox.stack.recorded import Access
from git_worlds import SHARED, acted_on, make_world
from turns import NIGHTLY

WORLDS = 500 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 200 if NIGHTLY else 60
BLOCKS = 10
# Small enough that some of the worlds are larger.
FOLDERS = 60
SECONDS = 600.0


def outside(paths: Collection[str], walls: Collection[str]) -> list[str]:
    """Return the paths that are neither in `walls` nor below one of them."""
    return sorted(path for path in paths if not {path, *map(str, PurePosixPath(path).parents)}.intersection(walls))


def check(project: Path) -> None:
    """Compare the protected paths with those that git acts on, and with the result of a short search."""
    found = candidates(project, patience=Patience(SECONDS))
    # An unfinished search reports what it did not search. Paths in there are not checked.
    acts = acted_on(project, but=found.unsearched)
    if found.unsearched:
        acts = {path for path in acts if outside([path], found.unsearched) and SHARED not in path}
    assert outside(acts, {one.path for one in found.rows}) == []
    if not all(one.path.isprintable() for one in found.rows):
        with pytest.raises(UserError, match="this name is not printable"):
            find_protected(project)
        return
    mounted = {one.path for one in find_protected(project).paths if one.access is Access.READ}
    assert outside({path for path in acts if is_real(project, path)}, mounted) == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repositories, "MAX_FOLDERS", 1)
        again = find_protected(project, before=mounted)
    there = {path for path in mounted if (project / path).exists()}
    assert outside(there, {one.path for one in again.paths if one.access is Access.READ}) == []


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_protects_every_path_that_git_acts_on(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protected, "SECONDS_TO_PROTECT", SECONDS)
    monkeypatch.setattr(repositories, "MAX_FOLDERS", FOLDERS)
    for number in range(block, WORLDS, BLOCKS):
        project = tmp_path / str(number)
        make_world(project, Random(number))  # noqa: S311 - the same worlds each time
        try:
            check(project)
        except AssertionError as error:
            raise AssertionError(f"world {number}: {error}") from error
