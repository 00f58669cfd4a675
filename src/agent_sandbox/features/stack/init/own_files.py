"""Remove what `init` wrote into a project, for `destroy --files`, and keep what the user wrote."""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from agent_sandbox.features.stack.init.git_exclude import EXCLUDE, GITIGNORE, exclude_file
from agent_sandbox.host.files import open_folder, problem_of, read_text, write_all
from agent_sandbox.policyfile.resolved import FOLDER
from agent_sandbox.printable import printable
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import read_facts
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.dotenv import remove_variables
from agent_sandbox.project.render.formats.header import Provenance, provenance_of
from agent_sandbox.project.render.ignore import no_longer_ignoring
from agent_sandbox.project.render.paths import (
    DEVCONTAINER,
    DOTENV,
    IGNORE,
    IGNORED,
    POLICY,
    PROJECT_FILE,
    RECORD,
    SHARED,
    STACK,
    VALUES,
)
from agent_sandbox.project.render.reconcile import OnConflict, cleared_dotenv
from agent_sandbox.stack.engine import FILES_VARIABLE, NAME_VARIABLE, STACK_VARIABLE

FOLDERS = (f"{Path(POLICY).parent}/{FOLDER}", str(Path(POLICY).parent))


def without_ours(project: Project) -> dict[str, str]:
    """Return the text that remains of each file that `init` wrote or extended; a file without text is to be removed.

    The policy and the project file are removed with the user's edits. A devcontainer.json that `init` extended is kept.
    Raise UserError if a file cannot be read.
    """
    there = {path: text for path in _places(project.root) if (text := read_text(project.root, path)) is not None}
    left = {path: _left(path, text, project) for path, text in there.items()}
    # The user's values: git goes on ignoring them.
    ignoring = (*((GITIGNORE, EXCLUDE) if left.get(DOTENV) else ()), *((IGNORE,) if left.get(VALUES) else ()))
    left |= {path: there[path] for path in ignoring if path in there}
    return {path: text for path, text in left.items() if text != there[path]}


def _left(path: str, text: str, project: Project) -> str:
    if path in {POLICY, PROJECT_FILE, RECORD}:
        return ""
    if path == DOTENV:
        ours = {FILES_VARIABLE: STACK, NAME_VARIABLE: project.name}
        return cleared_dotenv(path, text, ours, former=frozenset(), on_conflict=OnConflict.REPLACE).after
    if path == VALUES:
        return remove_variables(text, {STACK_VARIABLE})
    if path in {IGNORE, GITIGNORE, EXCLUDE}:
        return no_longer_ignoring(text, IGNORED if path == IGNORE else (DOTENV,))
    return text if provenance_of(text) is Provenance.FOREIGN else ""


def _places(root: Path) -> tuple[str, ...]:
    """Return the paths of all files that `init` may have written or extended."""
    folder = Path(root, FOLDERS[0])
    names = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
    exclude = exclude_file(root, None)
    ours = (DEVCONTAINER, POLICY, PROJECT_FILE, SHARED, RECORD, IGNORE, VALUES)
    services = (f"{FOLDERS[0]}/{name}" for name in names)
    # The stack file is the last: without it, no second try finds the rest.
    return (*ours, *services, DOTENV, GITIGNORE, *([exclude] if exclude else ()), STACK)


def as_listed(project: Project, left: Mapping[str, str]) -> tuple[str, ...]:
    """Return these paths for a list that marks files that stay in part and files that the user edited."""
    texts = {path: read_text(project.root, path) or "" for path, text in left.items() if not text}
    edited = {path for path, text in texts.items() if provenance_of(text) is Provenance.EDITED}
    marks = {path: " (in part)" if text else " (edited)" * (path in edited) for path, text in left.items()}
    return tuple(f"{printable(path)}{mark}" for path, mark in marks.items())


def remove_ours(project: Project, left: Mapping[str, str]) -> None:
    """Rewrite or remove these files, then remove empty directories that `init` made; raise UserError."""
    root, mounted = project.root, read_facts(project.root).protected
    write_all(root, {path: text for path, text in left.items() if text})
    for path in (path for path, text in left.items() if not text):
        _remove(root, path, os.unlink)
    for path in (*sorted(mounted, reverse=True), *FOLDERS):
        if not path.startswith((".git/", "/")):
            with suppress(UserError):  # not a directory, or not empty
                _remove(root, path, os.rmdir)


def _remove(root: Path, path: str, remove: Callable[..., None]) -> None:
    with ExitStack() as stack:
        try:
            remove(Path(path).name, dir_fd=open_folder(stack, root, path))
        except OSError as error:
            raise UserError([problem_of(str(root / path), error)]) from error
