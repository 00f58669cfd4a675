"""Read the files that decide what a project runs and reaches, as they are now."""

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.host.files import read_bytes, read_text
from agent_sandbox.policyfile.resolved import TOOLS
from agent_sandbox.policyfile.text.reading import MAX_BYTES
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.documents import mapping
from agent_sandbox.project.dotenv import stack_files
from agent_sandbox.project.project_file import files_run_by, made_of, project_files
from agent_sandbox.project.render.editor_files import FILES
from agent_sandbox.project.render.formats.foreign import load_foreign
from agent_sandbox.project.render.paths import DEVCONTAINER, DOTENV, POLICY, PROJECT_FILE, RECORD, SHARED, STACK
from agent_sandbox.stack.engine import FILES_VARIABLE, SHARED_FILE

FOLDER = Path(POLICY).parent
FILES_KEY = "compose"  # in trust records and fingerprints: another word would end all trust
# The policy's other files: resolved services, the list that `domains_file` names, and the certificates that
# `settings.upstream.ca` names.
SERVICES = tuple(f"{FOLDER}/services/{name}.yaml" for name in TOOLS)
LIST_KEY, UPSTREAM_KEY = "domains_file", "upstream"
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
NAMED_IN = f"`{FILES_VARIABLE}` in {DOTENV} or `{FILES}` in {Path(DEVCONTAINER).name}"
MARK = "\ufeff"
MAX_POLICY = 64 << 20  # more than the proxy accepts
# Invalid UTF-8 survives in the trust record.
LOSSLESS = "surrogateescape"


class Standing(Struct, frozen=True, kw_only=True):
    """The settings of one directory. `owner` is set if it belongs to another user.

    `stack_files` lists the stack's files in their order; `files` has the text of each existing file, by its path in
    the project, or its absolute path outside.
    """

    root: Path
    owner: int | None
    stack_files: tuple[str, ...]
    files: Mapping[str, str]

    def apart_from(self, paths: Collection[str]) -> "Standing":
        """Return a copy without these files."""
        return replace(
            self,
            stack_files=tuple(path for path in self.stack_files if path not in paths),
            files={path: text for path, text in self.files.items() if path not in paths},
        )

    @property
    def policy(self) -> dict[str, str]:
        """The policy's files."""
        # One may also be a file of the stack: a policy can name any file beside it as its host list.
        said = _said(self.files.get(POLICY, ""))
        names = (POLICY, *SERVICES, *_list(said), *_certificates(said))
        return {path: self.files[path] for path in names if path in self.files}

    @property
    def box(self) -> dict[str, str]:
        """The project file and the Dockerfile that it names."""
        return made_of(self.files)

    @property
    def run(self) -> tuple[str, ...]:
        """The files that a build or the container runs; one may also be a file of the policy, or the project file."""
        return tuple(files_run_by(self.files.get(PROJECT_FILE, "")))

    @property
    def lists(self) -> dict[str, str]:
        """The host list that the policy names, if any."""
        names = _list(_said(self.files.get(POLICY, "")))
        return {path: self.files[path] for path in names if path in self.files}

    @property
    def fingerprint(self) -> str:
        """The hash of the settings; it does not depend on the directory, so it is the same in CI."""
        files = {path: hashlib.sha256(text.encode(errors=LOSSLESS)).hexdigest() for path, text in self.files.items()}
        said = json.dumps({"owner": self.owner, FILES_KEY: self.stack_files, "files": files}, sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()


def look(root: Path, environ: Mapping[str, str], planned: Mapping[str, str] = MappingProxyType({})) -> Standing:
    """Read the settings of the project at `root`; raise UserError for a link, a pipe or a missing file.

    `planned` has the texts of files of the stack that are not written yet.
    """
    root = root.resolve()
    owner = root.stat().st_uid
    named = tuple(_name(root, file) for file in stack_files(root, Path(STACK), planned))
    found = {path: planned.get(path) or _text(root, path) for path in (*named, RECORD, DEVCONTAINER)}
    found |= project_files(root)
    if _may_name_shared(found[DEVCONTAINER] or ""):
        found |= {SHARED: _text(root, SHARED)}
    found |= {path: _policy(root, path) for path in (POLICY, *SERVICES)}
    said = _said(found[POLICY] or "")
    found |= {path: _policy(root, path) for path in (*_list(said), *_certificates(said)) if path not in found}
    missing = [path for path in named if found[path] is None]
    if missing:
        what = f"{NAMED_IN} names it, but it does not exist"
        raise UserError([Problem(where=str(root / path), what=what) for path in missing])
    return Standing(
        root=root,
        owner=None if owner in own_numbers(environ) else owner,
        stack_files=named,
        files={path: text for path, text in found.items() if text is not None},
    )


def own_numbers(environ: Mapping[str, str]) -> frozenset[int]:
    """Return the uids that count as the user: the current one, and under sudo the caller's."""
    caller = environ.get("SUDO_UID", "")
    called = os.geteuid() == 0 and caller.isascii() and caller.isdigit()
    return frozenset({os.geteuid(), *([int(caller)] if called else [])})


def agent_can_write(path: str) -> bool:
    """Return whether a file is in the part of the project that the agent may write."""
    return not Path(path).is_absolute() and Path(path).parts[0] != Path(STACK).parts[0]


def _may_name_shared(devcontainer: str) -> bool:
    """Return whether editors may start the shared file; only an escape could hide its name from a text search."""
    return SHARED_FILE in devcontainer or "\\" in devcontainer


def _name(root: Path, file: Path) -> str:
    plain = Path(os.path.normpath(file))  # as the engine reads it, `..` removes the part before it, link or not
    return str(plain.relative_to(root) if plain.is_relative_to(root) else plain)


def _text(root: Path, path: str) -> str | None:
    # Files outside, even behind a link, were put there by the user.
    folder, name = ((root / path).parent.resolve(), Path(path).name) if Path(path).is_absolute() else (root, path)
    return read_text(folder, name)


@lru_cache(maxsize=4)  # cached: the same text is parsed several times
def _said(policy: str) -> Mapping[str, Any]:
    """Parse a policy that may name other files; only an escape could hide such a key from a text search."""
    if len(policy) > MAX_BYTES or not any(key in policy for key in (LIST_KEY, UPSTREAM_KEY, "\\")):
        return {}
    try:
        return mapping(load_foreign(policy.removeprefix(MARK), file=POLICY, most=MAX_BYTES))
    except UserError:
        return {}  # the proxy ignores it too


def _list(said: Mapping[str, Any]) -> tuple[str, ...]:
    return _beside(said.get(LIST_KEY))


def _certificates(said: Mapping[str, Any]) -> tuple[str, ...]:
    return _beside(mapping(mapping(said.get("settings")).get(UPSTREAM_KEY)).get("ca"))


def _beside(name: object) -> tuple[str, ...]:
    return (f"{FOLDER}/{name}",) if isinstance(name, str) and FILE_NAME.fullmatch(name) else ()


def _policy(root: Path, path: str) -> str | None:
    """Return a policy file's text; `policy check` reports what is not a regular file, which the proxy ignores."""
    try:
        data = read_bytes(root, path, limit=MAX_POLICY + 1)
    except OSError:
        return None
    return None if data is None else data.decode(errors=LOSSLESS)
