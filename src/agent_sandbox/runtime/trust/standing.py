"""What a project asks for: the files by which it chooses what runs and what is reached, as their bytes are now."""

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agent_sandbox.policyfile.resolved import paths_beside
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.render.paths import COMPOSE, DEVCONTAINER, DOTENV, POLICY
from agent_sandbox.runtime.dotenv import compose_files
from agent_sandbox.runtime.files import read_bytes, read_text

# The policy, and services that were resolved beside it.
POLICY_FILES = (POLICY, *map(str, paths_beside(Path(POLICY))))
MAX_POLICY = 10 << 20  # what the proxy takes
# Bytes that are no UTF-8 stay what they are on the way to a record and back.
LOSSLESS = "surrogateescape"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The settings of one directory. `owner` is set where it belongs to somebody else than the user.

    `compose` names the files of the stack in the order in which compose takes them; `files` has the text of each file
    that is there, by its path in the project, or in full where it lies outside.
    """

    root: Path
    owner: int | None
    compose: tuple[str, ...]
    files: Mapping[str, str]

    def apart_from(self, paths: Collection[str]) -> "Standing":
        """Return the standing without these files."""
        return replace(
            self,
            compose=tuple(path for path in self.compose if path not in paths),
            files={path: text for path, text in self.files.items() if path not in paths},
        )

    @property
    def digest(self) -> str:
        """The hash of what is asked for, wherever the directory lies: it is the same in CI."""
        files = {path: hashlib.sha256(text.encode(errors=LOSSLESS)).hexdigest() for path, text in self.files.items()}
        said = json.dumps({"owner": self.owner, "compose": self.compose, "files": files}, sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()


def look(root: Path, environ: Mapping[str, str]) -> Standing:
    """Read what the project at `root` asks for; a link, a pipe or a file that is missing is a problem."""
    root = root.resolve()
    owner = root.stat().st_uid
    compose = tuple(_name(root, file) for file in compose_files(root, Path(COMPOSE)))
    found = {path: _text(root, path) for path in (*compose, DEVCONTAINER, *POLICY_FILES)}
    missing = [path for path in compose if found[path] is None]
    if missing:
        what = f"`COMPOSE_FILE` in {DOTENV} names it, and it is not there"
        raise UserError([Problem(where=str(root / path), what=what) for path in missing])
    return Standing(
        root=root,
        owner=None if owner in own_numbers(environ) else owner,
        compose=compose,
        files={path: text for path, text in found.items() if text is not None},
    )


def own_numbers(environ: Mapping[str, str]) -> frozenset[int]:
    """Return whose files are the user's own: those of the user, and under sudo of who called it."""
    caller = environ.get("SUDO_UID", "")
    called = os.geteuid() == 0 and caller.isascii() and caller.isdigit()
    return frozenset({os.geteuid(), *([int(caller)] if called else [])})


def agent_can_write(path: str) -> bool:
    """Say whether a file lies in the part of the project that the agent may write."""
    return not Path(path).is_absolute() and Path(path).parts[0] != Path(COMPOSE).parts[0]


def _name(root: Path, file: Path) -> str:
    plain = Path(os.path.normpath(file))  # as compose does it: `..` takes the part before it away, link or not
    return str(plain.relative_to(root) if plain.is_relative_to(root) else plain)


def _text(root: Path, path: str) -> str | None:
    if path in POLICY_FILES:
        return _policy(root, path)
    # What lies outside was put there by the user, behind a link too.
    folder, name = ((root / path).parent.resolve(), Path(path).name) if Path(path).is_absolute() else (root, path)
    return read_text(folder, name)


def _policy(root: Path, path: str) -> str | None:
    """Return a file of the policy as it is; of what is no file, `policy check` says why the proxy takes it for none."""
    try:
        data = read_bytes(root, path, limit=MAX_POLICY + 1)
    except OSError:
        return None
    return None if data is None else data.decode(errors=LOSSLESS)
