from pathlib import Path

import pytest

from agent_sandbox.features.secrets.sources.all_recipes import (
    may_have_recipes,
    recipes_for,
    shared_file,
    shared_recipes,
)
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of

TEXT = "version: 1\nsecrets: [{{name: key, hosts: [a.test], from: env:KEY, projects: ['{app}']}}]\n"
SHARED = Recipe(name="key", hosts=("a.test",), source="env:KEY")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A user with a file of recipes for the project `app`."""
    (tmp_path / "app").mkdir()
    file = tmp_path / "config" / "agent-sandbox" / "secrets.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(TEXT.format(app=tmp_path / "app"))
    return {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path / "state")}


def test_a_projects_own_recipe_wins(environ: dict[str, str], tmp_path: Path) -> None:
    own = Recipe(name="key", hosts=("b.test",), source="env:MINE")
    first = Recipe(name="a", hosts=("b.test",), source="env:A", ttl=60.0)
    assert recipes_for(tmp_path / "app", environ) == (SHARED,)
    for recipe in (own, first):
        recipes_of(tmp_path / "app", environ).add(recipe)
    assert recipes_for(tmp_path / "app", environ) == (first, own)


def test_has_no_shared_recipes_without_the_file_or_a_home_directory(environ: dict[str, str], tmp_path: Path) -> None:
    file = shared_file(environ)
    assert file
    file.unlink()
    assert (shared_recipes(tmp_path, environ), shared_recipes(tmp_path, {})) == ((), ())


def test_may_have_recipes_finds_files_of_recipes(environ: dict[str, str], tmp_path: Path) -> None:
    app, without = tmp_path / "app", {"XDG_STATE_HOME": environ["XDG_STATE_HOME"]}
    assert (may_have_recipes(app, environ), may_have_recipes(app, without)) == (True, False)
    recipes_of(app, without).add(SHARED)
    assert may_have_recipes(app, without)
