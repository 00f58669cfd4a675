import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_sandbox.features.secrets.sources.recipes import Recipe, Recipes, recipes_of
from agent_sandbox.problems import UserError

A = Recipe(name="a", hosts=("a.test",), source="pass show a")
B = Recipe(name="b", hosts=("a.test", "b.test"), source="env:B")


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    (tmp_path / "project").mkdir()
    return recipes_of(tmp_path / "project", {"XDG_STATE_HOME": str(tmp_path / "state")})


def problem(recipes: Recipes) -> str:
    with pytest.raises(UserError) as raised:
        recipes.load()
    return str(raised.value.problems[0])


def test_stores_recipes_by_name_in_files_that_only_the_owner_can_read(recipes: Recipes) -> None:
    assert recipes.load() == ()
    for recipe in (B, A, Recipe(name="b", hosts=(), source="old"), B):
        recipes.add(recipe)
    assert recipes.load() == (A, B)
    (file,) = recipes.folder.iterdir()
    assert (file.stat().st_mode & 0o777, recipes.folder.stat().st_mode & 0o777) == (0o600, 0o700)


def test_recipes_that_several_commands_add_at_the_same_time_are_all_kept(recipes: Recipes) -> None:
    begin = threading.Barrier(8)

    def add(number: int) -> None:
        begin.wait(30)
        recipes.add(Recipe(name=f"r{number}", hosts=("a.test",), source="env:A"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    assert [one.name for one in recipes.load()] == [f"r{number}" for number in range(8)]


def test_recipes_are_removed_one_by_one_or_all(recipes: Recipes) -> None:
    for recipe in (A, B):
        recipes.add(recipe)
    assert [recipes.remove("a"), recipes.remove("a")] == [True, False]
    assert recipes.load() == (B,)
    recipes.forget()
    recipes.forget()
    assert recipes.load() == ()


def test_each_project_has_its_own_recipes(recipes: Recipes, tmp_path: Path) -> None:
    recipes.add(A)
    other = recipes_of(tmp_path / "other", {"XDG_STATE_HOME": str(tmp_path / "state")})
    assert other.load() == ()
    (file,) = recipes.folder.iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "root": "/another"}))
    assert recipes.load() == ()


@pytest.mark.parametrize("text", ["", "[]", '{"recipes": 1}', '{"recipes": [{}]}'])
def test_a_damaged_file_is_reported(recipes: Recipes, text: str) -> None:
    recipes.add(A)
    (file,) = recipes.folder.iterdir()
    file.write_text(text)
    assert problem(recipes) == f"{file}: this file is damaged; remove it, and set the secrets again"


@pytest.mark.parametrize("at", ["folder", "file"])
def test_rejects_recipes_where_other_users_can_write(recipes: Recipes, at: str) -> None:
    recipes.add(A)
    (file,) = recipes.folder.iterdir()
    (recipes.folder if at == "folder" else file).chmod(0o777)
    assert "others may write here, and so could name commands that run as you" in problem(recipes)


def test_rejects_recipes_behind_a_symbolic_link(recipes: Recipes, tmp_path: Path) -> None:
    recipes.add(A)
    (file,) = recipes.folder.iterdir()
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert "others may write here" in problem(recipes)


def test_rejects_a_recipe_directory_in_the_project(tmp_path: Path) -> None:
    recipes = recipes_of(tmp_path, {"XDG_STATE_HOME": str(tmp_path / "state")})
    with pytest.raises(UserError) as raised:
        recipes.add(A)
    what = "this folder is in the project, where the agent could name commands that run as you"
    assert raised.value.problems[0].what == what
    assert recipes.load() == ()


def test_reports_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    recipes = recipes_of(tmp_path / "project", {"XDG_STATE_HOME": str(tmp_path / "state")})
    with pytest.raises(UserError):
        recipes.add(A)
