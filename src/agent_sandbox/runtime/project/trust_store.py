"""What the user has said yes to: one folder for each directory, below the user's state, where no agent has a way.

The very texts are kept, so that a change can be shown, and the compose files once more as files: these, and not the
project's own, are what `docker compose` is given.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_sandbox.bounded_json import read_json
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.host.files import problem_of, write_all
from agent_sandbox.runtime.host.user_dirs import state_directory
from agent_sandbox.runtime.project.trust_snapshot import Standing, own_numbers

RECORD = "trusted.json"
OTHERS_MAY_WRITE = 0o022


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The folder of all that is trusted, and whose it has to be."""

    folder: Path
    owners: frozenset[int]

    def load(self, root: Path) -> Standing | None:
        """Return what was trusted in this directory, if anything was."""
        standing = self._read(self._place(root.resolve()))
        if standing is None or standing.root != root.resolve():
            return None
        self._require_safe(standing.root)
        return standing

    def save(self, standing: Standing) -> None:
        """Trust this from now on, in place of what was."""
        place = self._place(standing.root)
        said = {
            "root": str(standing.root),
            "owner": standing.owner,
            "compose": list(standing.compose),
            "files": dict(standing.files),
        }
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise UserError([problem_of(str(self.folder), error)]) from error
        self._require_safe(standing.root)
        texts = (standing.files[name] for name in standing.compose)
        copies = {path.name: text for path, text in zip(self.copies(standing), texts, strict=True)}
        files = {RECORD: json.dumps(said), **copies}
        write_all(self.folder, {f"{place.name}/{name}": text for name, text in files.items()})

    def forget(self, root: Path) -> bool:
        """Trust nothing in this directory any more; say whether anything was."""
        place = self._place(root.resolve())
        if not place.is_dir():
            return False
        try:
            for file in place.iterdir():
                file.unlink()
            place.rmdir()
        except OSError as error:
            raise UserError([problem_of(str(place), error)]) from error
        return True

    def copies(self, standing: Standing) -> tuple[Path, ...]:
        """Return where the compose files of a standing lie as they were trusted, in their order."""
        place = self._place(standing.root)
        return tuple(place / f"{number}-{Path(name).name}" for number, name in enumerate(standing.compose))

    def __iter__(self) -> Iterator[Standing]:
        """Yield all that is trusted, by directory."""
        with suppress(FileNotFoundError):
            found = [self._read(place) for place in self.folder.iterdir()]
            yield from sorted((one for one in found if one), key=lambda standing: standing.root)

    def _place(self, root: Path) -> Path:
        return self.folder / hashlib.sha256(os.fsencode(root)).hexdigest()[:32]

    def _read(self, place: Path) -> Standing | None:
        try:
            said = read_json((place / RECORD).read_text(encoding="utf-8"))
            return Standing(
                root=Path(said["root"]), owner=said["owner"], compose=tuple(said["compose"]), files=said["files"]
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UserError([problem_of(str(place), error)]) from error
        except (ValueError, LookupError, TypeError) as error:
            hint = "remove the folder: you will be asked again"
            raise UserError([Problem(where=str(place), what="this record is broken", hint=hint)]) from error

    def _require_safe(self, root: Path) -> None:
        """Refuse a folder in which somebody else could say yes."""
        found = self.folder.stat()
        hint = "set XDG_STATE_HOME to a directory of yours, outside of every project"
        if self.folder.resolve().is_relative_to(root):
            what = "this folder lies in the project: the agent could say yes in your place"
            raise UserError([Problem(where=str(self.folder), what=what, hint=hint)])
        if found.st_uid not in self.owners or found.st_mode & OTHERS_MAY_WRITE:
            what = "others may write to this folder, and so say yes in your place"
            raise UserError([Problem(where=str(self.folder), what=what, hint=f"chmod 700 it, or {hint}")])


def open_store(environ: Mapping[str, str]) -> Store:
    """Return the store of this user."""
    return Store(folder=state_directory(environ) / "trust", owners=own_numbers(environ))
