"""What a project asks for: the files by which it chooses what runs and what is reached, as their bytes are now."""

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent_sandbox.policyfile.text.reading import MAX_BYTES
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.render.foreign import load_foreign
from agent_sandbox.render.paths import COMPOSE, DEVCONTAINER, DOTENV, POLICY
from agent_sandbox.runtime.host.files import read_bytes, read_text
from agent_sandbox.runtime.project.dotenv import compose_files

FOLDER = Path(POLICY).parent
# What the policy can be made of besides: services that were resolved, the list that `domains_file` names, and the
# certificates that `settings.upstream.ca` names.
SERVICES = tuple(f"{FOLDER}/services/{name}.yaml" for name in ("debian", "node", "python"))
LIST_KEY, UPSTREAM_KEY = "domains_file", "upstream"
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
MARK = "\ufeff"
MAX_POLICY = 64 << 20  # more than the proxy takes
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
    def policy(self) -> dict[str, str]:
        """The files that the policy is made of."""
        # One of them may be a file of the stack as well: a policy can name any file beside it as its list.
        said = _said(self.files.get(POLICY, ""))
        names = (POLICY, *SERVICES, *_list(said), *_certificates(said))
        return {path: self.files[path] for path in names if path in self.files}

    @property
    def lists(self) -> dict[str, str]:
        """The file of hosts that the policy names, if there is one."""
        names = _list(_said(self.files.get(POLICY, "")))
        return {path: self.files[path] for path in names if path in self.files}

    @property
    def fingerprint(self) -> str:
        """The hash of what is asked for, wherever the directory lies: it is the same in CI."""
        files = {path: hashlib.sha256(text.encode(errors=LOSSLESS)).hexdigest() for path, text in self.files.items()}
        said = json.dumps({"owner": self.owner, "compose": self.compose, "files": files}, sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()


def look(root: Path, environ: Mapping[str, str]) -> Standing:
    """Read what the project at `root` asks for; a link, a pipe or a file that is missing is a problem."""
    root = root.resolve()
    owner = root.stat().st_uid
    compose = tuple(_name(root, file) for file in compose_files(root, Path(COMPOSE)))
    found = {path: _text(root, path) for path in (*compose, DEVCONTAINER)}
    found |= {path: _policy(root, path) for path in (POLICY, *SERVICES)}
    said = _said(found[POLICY] or "")
    found |= {path: _policy(root, path) for path in (*_list(said), *_certificates(said)) if path not in found}
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
    # What lies outside was put there by the user, behind a link too.
    folder, name = ((root / path).parent.resolve(), Path(path).name) if Path(path).is_absolute() else (root, path)
    return read_text(folder, name)


@lru_cache(maxsize=4)  # several questions are asked of the same text
def _said(policy: str) -> Mapping[str, Any]:
    """Read a policy that may name other files; only an escape could hide a key from the first look."""
    if len(policy) > MAX_BYTES or not any(key in policy for key in (LIST_KEY, UPSTREAM_KEY, "\\")):
        return {}
    try:
        return _mapping(load_foreign(policy.removeprefix(MARK), file=POLICY, most=MAX_BYTES))
    except UserError:
        return {}  # the proxy takes it for none as well


def _list(said: Mapping[str, Any]) -> tuple[str, ...]:
    return _beside(said.get(LIST_KEY))


def _certificates(said: Mapping[str, Any]) -> tuple[str, ...]:
    return _beside(_mapping(_mapping(said.get("settings")).get(UPSTREAM_KEY)).get("ca"))


def _beside(name: object) -> tuple[str, ...]:
    return (f"{FOLDER}/{name}",) if isinstance(name, str) and FILE_NAME.fullmatch(name) else ()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _policy(root: Path, path: str) -> str | None:
    """Return a file of the policy as it is; of what is no file, `policy check` says why the proxy takes it for none."""
    try:
        data = read_bytes(root, path, limit=MAX_POLICY + 1)
    except OSError:
        return None
    return None if data is None else data.decode(errors=LOSSLESS)
