"""The trust records: one folder per project directory, below the user's state directory, out of the agent's reach.

A record stores the texts, to show changes, and copies of the stack files. The engine gets these copies, not the
project's files.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from agent_sandbox.bounded_json import read_json
from agent_sandbox.host.files import problem_of, write_all
from agent_sandbox.host.user_dirs import state_directory, state_name
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.trust_snapshot import FILES_KEY, Standing, own_numbers

RECORD = "trusted.json"
OTHERS_MAY_WRITE = 0o022


class Store(Struct, frozen=True, kw_only=True):
    """The folder of all trust records, and its required owners."""

    folder: Path
    owners: frozenset[int]

    def load(self, root: Path) -> Standing | None:
        """Return the trust record of this directory, or None."""
        standing = self._read(self._place(root.resolve()))
        if standing is None or standing.root != root.resolve():
            return None
        self._require_safe(standing.root)
        return standing

    def save(self, standing: Standing) -> None:
        """Replace the trust record."""
        place = self._place(standing.root)
        said = {
            "root": str(standing.root),
            "owner": standing.owner,
            FILES_KEY: list(standing.stack_files),
            "files": dict(standing.files),
        }
        self.require_usable(standing.root)
        texts = (standing.files[name] for name in standing.stack_files)
        copies = {path.name: text for path, text in zip(self.copies(standing), texts, strict=True)}
        files = {RECORD: json.dumps(said), **copies}
        write_all(self.folder, {f"{place.name}/{name}": text for name, text in files.items()})

    def require_usable(self, root: Path) -> None:
        """Make the folder; raise UserError if no record of this directory could be stored safely."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise UserError([problem_of(str(self.folder), error)]) from error
        self._require_safe(root)

    def forget(self, root: Path) -> bool:
        """Delete the trust record of this directory; return whether there was one."""
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
        """Return the trusted copies of the stack files, in order."""
        place = self._place(standing.root)
        return tuple(place / f"{number}-{Path(name).name}" for number, name in enumerate(standing.stack_files))

    def __iter__(self) -> Iterator[Standing]:
        """Yield all trust records, sorted by directory."""
        with suppress(FileNotFoundError):
            found = [self._read(place) for place in self.folder.iterdir()]
            yield from sorted((one for one in found if one), key=lambda standing: standing.root)

    def _place(self, root: Path) -> Path:
        return self.folder / state_name(root)

    def _read(self, place: Path) -> Standing | None:
        try:
            said = read_json((place / RECORD).read_text(encoding="utf-8"))
            return Standing(
                root=Path(said["root"]), owner=said["owner"], stack_files=tuple(said[FILES_KEY]), files=said["files"]
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UserError([problem_of(str(place), error)]) from error
        except (ValueError, LookupError, TypeError) as error:
            hint = "remove the folder; you will be asked again"
            raise UserError([Problem(where=str(place), what="this trust record is damaged", hint=hint)]) from error

    def _require_safe(self, root: Path) -> None:
        """Raise UserError if anyone else could write to the folder."""
        found = self.folder.stat()
        hint = "set XDG_STATE_HOME to a directory that only you can write, outside all projects"
        if self.folder.resolve().is_relative_to(root):
            what = "this folder is in the project, where the agent could trust projects for you"
            raise UserError([Problem(where=str(self.folder), what=what, hint=hint)])
        if found.st_uid not in self.owners:
            what = "this folder belongs to another user, who could trust projects for you"
            hint = f"chown it to yourself if you made it with sudo, or {hint}"
            raise UserError([Problem(where=str(self.folder), what=what, hint=hint)])
        if found.st_mode & OTHERS_MAY_WRITE:
            what = "others may write to this folder, and so could trust projects for you"
            raise UserError([Problem(where=str(self.folder), what=what, hint=f"chmod 700 it, or {hint}")])


def open_store(environ: Mapping[str, str]) -> Store:
    """Return this user's trust store."""
    return Store(folder=state_directory(environ) / "trust", owners=own_numbers(environ))
