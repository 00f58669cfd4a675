"""All recipes that serve a project: its own, and those of the user's file."""

import os
from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.host.user_dirs import config_directory


def recipes_for(root: Path, environ: Mapping[str, str]) -> tuple[Recipe, ...]:
    """Return the recipes that serve the project, sorted by name; its own win."""
    own = recipes_of(root, environ).load()
    names = {one.name for one in own}
    shared = (one for one in shared_recipes(root, environ) if one.name not in names)
    return tuple(sorted((*own, *shared), key=lambda one: one.name))


def may_have_recipes(root: Path, environ: Mapping[str, str]) -> bool:
    """Return whether there is a file of recipes, whatever it contains."""
    file = shared_file(environ)
    return recipes_of(root, environ).exist or (file is not None and os.path.lexists(file))


def shared_recipes(root: Path, environ: Mapping[str, str]) -> tuple[Recipe, ...]:
    """Return the recipes of the user's file that serve this project."""
    file = shared_file(environ)
    if file is None or not os.path.lexists(file):
        return ()
    from agent_sandbox.features.secrets.sources.user_recipes import user_recipes  # noqa: PLC0415 - pydantic; few have the file

    return user_recipes(file, root)


def shared_file(environ: Mapping[str, str]) -> Path | None:
    """Return the path of the user's file, which may not exist; None without a home directory."""
    config = config_directory(environ)
    return config / "secrets.yaml" if config else None
