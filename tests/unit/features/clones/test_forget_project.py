import os
from pathlib import Path

import pytest

from agent_sandbox.features.clones.clones import enter_clone
from agent_sandbox.features.clones.forget_project import forget_project
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.project.clone_record import clones_of
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.trust_store import open_store
from clone_worlds import with_clone_driver


def test_forgets_everything_of_a_clone_but_keeps_the_trust_of_a_project(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_clone_driver(project, tmp_path_factory.mktemp("clone"), monkeypatch)
    own = open_project(None, cwd=project)
    made = enter_clone(own, "fix-1", extra_ca=None, quiet=True).project
    recipe = Recipe(name="a.key", hosts=("a.test",), source="env:A_KEY")
    for one in (project, made.root):
        recipes_of(one, os.environ).add(recipe)
    (clone,) = clones_of(project, os.environ)
    forget_project(made, clone)
    assert (clones_of(project, os.environ), made.root.exists()) == ((), False)
    assert open_store(os.environ).load(made.root) is None
    assert recipes_of(project, os.environ).load() == (recipe,)
    forget_project(own, None)
    assert recipes_of(project, os.environ).load() == ()
    assert open_store(os.environ).load(project) is not None
