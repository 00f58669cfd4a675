"""Recipes: where the secrets of a project come from. They hold no values.

They are commands that run on the host machine, so they are in the user's state directory, out of the agent's reach. The
user may write others, for several projects, into a file.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from agent_sandbox.atomic_file import write_file
from agent_sandbox.bounded_json import read_json
from agent_sandbox.host.files import problem_of, project_lock
from agent_sandbox.host.user_dirs import state_directory, state_name
from agent_sandbox.problems import Problem, UserError

OTHERS_MAY_WRITE = 0o022


class Recipe(Struct, frozen=True, kw_only=True):
    """A secret with its hosts and its source."""

    name: str
    hosts: tuple[str, ...]
    source: str
    # The seconds for which a value is used, None for no limit.
    ttl: float | None = None


class Recipes(Struct, frozen=True, kw_only=True):
    """The recipes of one project."""

    folder: Path
    root: Path

    @property
    def exist(self) -> bool:
        """Whether any were stored."""
        return self._file.exists()

    def load(self) -> tuple[Recipe, ...]:
        """Return the recipes, sorted by name."""
        if not self.exist:
            return ()
        self._require_safe()
        try:
            said = read_json(self._file.read_text(encoding="utf-8"))
            found = [_recipe(one) for one in said["recipes"]]
        except OSError as error:
            raise UserError([problem_of(str(self._file), error)]) from error
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            hint = "remove it, and set the secrets again"
            raise UserError([Problem(where=str(self._file), what="this file is damaged", hint=hint)]) from error
        return tuple(sorted(found, key=lambda one: one.name)) if said.get("root") == str(self.root) else ()

    def add(self, recipe: Recipe) -> None:
        """Add a recipe, in place of one of the same name."""
        with self._lock():
            self._save((*(one for one in self.load() if one.name != recipe.name), recipe))

    def remove(self, name: str) -> bool:
        """Remove a recipe; return whether there was one."""
        with self._lock():
            before = self.load()
            kept = [one for one in before if one.name != name]
            if len(kept) == len(before):
                return False
            self._save(kept)
            return True

    def forget(self) -> None:
        """Remove all recipes of the project."""
        self._file.unlink(missing_ok=True)

    @property
    def _file(self) -> Path:
        return self.folder / f"{state_name(self.root)}.json"

    def _lock(self) -> AbstractContextManager[None]:
        return project_lock(self.root, self.folder.parent)

    def _save(self, recipes: Iterable[Recipe]) -> None:
        said = {"root": str(self.root), "recipes": to_builtins(recipes)}
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._require_safe()
            write_file(self._file, json.dumps(said).encode("ascii"))
        except OSError as error:
            raise UserError([problem_of(str(self._file), error)]) from error

    def _require_safe(self) -> None:
        """Raise UserError if the agent or another user could write a recipe, and so run a command as this user."""
        hint = "set XDG_STATE_HOME to a directory that only you can write, outside all projects"
        if self.folder.resolve().is_relative_to(self.root):
            what = "this folder is in the project, where the agent could name commands that run as you"
            raise UserError([Problem(where=str(self.folder), what=what, hint=hint)])
        for path in (self.folder, self._file):
            if not path.exists():
                continue
            found = path.lstat()
            if found.st_uid != os.geteuid() or found.st_mode & OTHERS_MAY_WRITE or path.is_symlink():
                what = "others may write here, and so could name commands that run as you"
                raise UserError([Problem(where=str(path), what=what, hint=f"chmod 700 the folder, or {hint}")])


def _recipe(said: Mapping[str, Any]) -> Recipe:
    ttl = said.get("ttl")
    return Recipe(
        name=str(said["name"]),
        hosts=tuple(map(str, said["hosts"])),
        source=str(said["source"]),
        ttl=None if ttl is None else float(ttl),
    )


def recipes_of(root: Path, environ: Mapping[str, str]) -> Recipes:
    """Return the recipes of the project in this directory."""
    return Recipes(folder=state_directory(environ) / "secrets", root=root.resolve())
