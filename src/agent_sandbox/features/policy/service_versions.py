"""Load the services of another version, from a folder or from this repository's history."""

from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.host.git.ask import ask_git
from agent_sandbox.host.process import Finished
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policyfile import Catalogue, parse_service
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.resources import data_root

FOLDER = "services"


def services_of(version: str, *, root: Path | None = None) -> Mapping[str, Layer]:
    """Return the services of a version; raise UserError if there is no such version."""
    folder = Path(version)
    if folder.is_dir():
        inner = folder / FOLDER
        return dict(Catalogue(folder=inner if inner.is_dir() else folder))
    return _of_repository(version, root or data_root())


def _of_repository(version: str, root: Path) -> Mapping[str, Layer]:
    listed = _git(root, "ls-tree", "--name-only", "--end-of-options", version, f"{FOLDER}/")
    if listed.code != 0 or not listed.out:
        what = "not a folder, and not a version of the repository that contains the services"
        hint = "name a folder of services, from a checkout or an unpacked release"
        raise UserError([Problem(where=version, what=what, hint=hint)])
    paths = [Path(line) for line in listed.out.splitlines() if line.endswith(".yaml")]
    return {path.stem: _read(root, version, path) for path in paths}


def _read(root: Path, version: str, path: Path) -> Layer:
    file = f"{version}:{path}"
    text = _git(root, "cat-file", "blob", file).out
    return parse_service(text, name=path.stem, file=file, shown=str(path))


def _git(root: Path, *words: str) -> Finished:
    try:
        return ask_git(*words, cwd=root)
    except OSError as error:
        raise UserError([Problem(where="git", what=f"can't be run: {error.strerror}", hint="install git")]) from error
