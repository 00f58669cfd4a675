"""The secret store: one file per secret in a volume that only the proxy mounts, with the hosts it is bound to.

The value of a secret with a source on the host machine is not in the volume but in memory: it is resolved again at each
start. So is the reason why it could not be resolved. Such a value may have a time to live, after which it is not used.
"""

import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_sandbox.atomic_file import write_file
from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.policy.errors import Ambiguous, InvalidValue
from agent_sandbox.policy.http.host import canonical_host
from agent_sandbox.policy.match.injection import SECRET, parse_secret_name
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.secrets.uses import Refusal

RECREATE = "run agent-sandbox init, then agent-sandbox up, to create a stack that can store secrets"
# A shorter secret would match other text in responses by chance.
SHORTEST, LONGEST = 8, 64 * 1024
NOT_YET, FAILED = "its source was not asked since the proxy started", "its source failed"
EXPIRED = "it has expired"
# The source of a value that was typed in or piped in.
STORED = "stored"
# A value is reported that expires within this part of its time to live, or this many seconds.
SOON, SOON_SECONDS = 0.1, 60.0
# Also counts the time that the machine sleeps. Unlike the time of day, it is the same on every clock of a container.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A secret. Its `repr` does not contain the value."""

    name: str
    hosts: tuple[str, ...]
    value: str = field(repr=False)
    # The kind of its source, and when the value was set, in seconds of the epoch.
    source: str = field(default=STORED, compare=False)
    since: float = field(default=0.0, compare=False)
    # When it expires, by `uptime`, if it does.
    until: float | None = None

    @property
    def expires(self) -> float | None:
        """When it expires, in seconds of the epoch."""
        return None if self.until is None else time.time() + self.until - uptime()

    @property
    def expires_soon(self) -> bool:
        """Whether it is time to fetch the value again."""
        left = float("inf") if self.until is None else self.until - uptime()
        return left < max(SOON_SECONDS, SOON * (left + time.time() - self.since))


class Unresolved(Struct, frozen=True, kw_only=True):
    """A secret whose source gave no value, and why."""

    name: str
    hosts: tuple[str, ...]
    why: str


class NotGivenError(Exception):
    """Why a request does not get what only a secret can give; `hint` says how to fix it.

    `fault` says that the secret, not the request, is the reason.
    """

    def __init__(self, why: str, hint: str = "", *, fault: bool = False) -> None:
        super().__init__(why)
        self.hint = hint
        self.fault = fault


def uptime() -> float:
    """Return the seconds since the machine started, by which tokens expire."""
    return time.clock_gettime(CLOCK)


def memory_of(folder: Path) -> Path:
    """Return the directory for values that are never on disk: a tmpfs beside the volume."""
    return folder.parent / "run" / "secrets"


def read_secret(folder: Path, name: str) -> Secret | Unresolved | None:
    """Return the secret, None if it does not exist or its file is not valid."""
    stored, in_memory = _paths(folder, name)
    found = _read(stored)
    if isinstance(found, Unresolved):
        found = _read(in_memory) or found
    if isinstance(found, Secret) and found.until is not None and found.until <= uptime():
        return Unresolved(name=name, hosts=found.hosts, why=EXPIRED)
    return found


# Cached, because each injection needs them.
@lru_cache(maxsize=256)
def _paths(folder: Path, name: str) -> tuple[str, str]:
    """Return where a secret may be, in the volume and in memory; nowhere if the name is invalid."""
    return (str(folder / name), str(memory_of(folder) / name)) if SECRET.fullmatch(name) else ("", "")


def _read(path: str) -> Secret | Unresolved | None:
    """Return what a regular file contains, without following a link; None if there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    # A file is replaced by another one, never written into.
    return _loaded(path, (found.st_ino, found.st_mtime_ns, found.st_size)) if stat.S_ISREG(found.st_mode) else None


@lru_cache(maxsize=256)
def _loaded(path: str, identity: tuple[int, int, int]) -> Secret | Unresolved | None:
    """Return what a file contains. Cached, because reading it takes longer than the rest of an injection."""
    return _parsed(path.rpartition("/")[2], _content(path), since=identity[1] / 1e9)


def _content(path: str | Path) -> bytes:
    """Return the content of a regular file, without following a link; nothing if there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(handle, 4 * LONGEST) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    finally:
        os.close(handle)


def _parsed(name: str, data: bytes, *, since: float) -> Secret | Unresolved | None:
    try:
        content = read_json(data)
    except NotJsonError:
        return None
    match content:
        case {"hosts": [*hosts], "value": str() as value} if _is_fit(value):
            return Secret(
                name=name,
                hosts=tuple(map(str, hosts)),
                value=value,
                source=str(content.get("source", STORED)),
                since=since,
                until=_time(content.get("until")),
            )
        case {"hosts": [*hosts], "unresolved": str() as why}:
            return Unresolved(name=name, hosts=tuple(map(str, hosts)), why=why)
    return None


def _is_fit(value: str) -> bool:
    return SHORTEST <= len(value) <= LONGEST and VALUE.fullmatch(value) is not None


def _time(said: object) -> float | None:
    """Return when a value expires, None for never; anything but a number counts as expired."""
    if said is None:
        return None
    try:
        return float(said) if isinstance(said, int | float) else 0.0
    except OverflowError:
        return 0.0


def put_secret(folder: Path, name: str, hosts: Sequence[str], value: bytes) -> None:
    """Write or replace a secret atomically. Raises UserError if it is invalid or cannot be written."""
    _require([*_problems(name, hosts), *_value_problems(value)])
    _write(folder / name, hosts, value=_text(value))
    _forget(folder, name)


def put_sourced(  # noqa: PLR0913 - all that is stored
    folder: Path,
    name: str,
    hosts: Sequence[str],
    value: bytes,
    *,
    source: str,
    until: float | None = None,
    login: Mapping[str, Any] | None = None,
) -> None:
    """Write or replace a secret that has a source of this kind: its value goes into memory, the rest to the volume."""
    _require([*_problems(name, hosts), *_value_problems(value)])
    # The value first, with its hosts: until the volume says that the secret has a source, the previous value is used.
    _write(_memory(folder) / name, hosts, value=_text(value), source=source, until=until)
    _write(folder / name, hosts, unresolved=NOT_YET, login=login)


def put_unresolved(folder: Path, name: str, hosts: Sequence[str], *, login: Mapping[str, Any] | None = None) -> None:
    """Record that the source of a secret failed; its previous value is no longer used.

    The reason stays on the host machine, because clients in the sandbox see what the proxy says.
    """
    _require(list(_problems(name, hosts)))
    _forget(folder, name)
    _write(folder / name, hosts, unresolved=NOT_YET, login=login)
    _write(_memory(folder) / name, hosts, unresolved=FAILED)


def login_names(folder: Path) -> list[str]:
    """Return the names of all files that may be logins."""
    return sorted(path.name for path in folder.iterdir() if SECRET.fullmatch(path.name)) if folder.is_dir() else []


def login_of(folder: Path, name: str) -> Any:  # noqa: ANN401 - whatever the file holds
    """Return what is stored about a secret as a login, None if it is none."""
    try:
        content = read_json(_content(folder / name))
    except NotJsonError:
        return None
    return content.get("login") if isinstance(content, dict) else None


def _memory(folder: Path) -> Path:
    """Return the directory for values in memory, which is created in a new tmpfs."""
    memory = memory_of(folder)
    with suppress(OSError):  # writing to it will say why
        memory.mkdir(mode=0o700)
    return memory


def _require(problems: list[Problem]) -> None:
    if problems:
        raise UserError(problems)


def _write(path: Path, hosts: Sequence[str], **content: object) -> None:
    said = {key: value for key, value in content.items() if value is not None}
    named = {"hosts": sorted({canonical_host(host) for host in hosts}), **said}
    try:
        write_file(path, json.dumps(named).encode("ascii"))
    except OSError as error:
        what = f"cannot store the secret: {error.strerror}"
        raise UserError([Problem(where="", what=what, hint=RECREATE)]) from error


def _problems(name: str, hosts: Sequence[str]) -> Iterator[Problem]:
    try:
        parse_secret_name(name)
    except InvalidValue as invalid:
        yield Problem(where="", what=invalid.what, hint=invalid.hint)
    if not hosts:
        yield Problem(where="", what="no host is given", hint="name each one: --host api.example.com")
    for host in hosts:
        try:
            canonical_host(host)
        except Ambiguous as doubt:
            yield Problem(where="", what=str(doubt), hint="name exact hosts; wildcards are not allowed")


def _value_problems(value: bytes) -> Iterator[Problem]:
    if not _is_fit(_text(value)):
        what = f"the value is not one line of {SHORTEST} to {LONGEST} ASCII characters"
        yield Problem(where="", what=what, hint='pass it on stdin: printf %s "$VALUE" | ...')


def _text(value: bytes) -> str:
    return value.removesuffix(b"\n").removesuffix(b"\r").decode("latin-1")


def listed(folder: Path) -> list[Secret | Unresolved]:
    """Return all secrets, sorted by name."""
    found = (read_secret(folder, path.name) for path in sorted(folder.iterdir())) if folder.is_dir() else ()
    return [secret for secret in found if secret is not None]


def as_row(one: Secret | Unresolved) -> dict[str, object]:
    """Return all but the value, for JSON."""
    problem = one.why if isinstance(one, Unresolved) else ""
    expires = one.expires if isinstance(one, Secret) else None
    return {"name": one.name, "hosts": one.hosts, "problem": problem, "expires": expires}


def troubled(folder: Path, refusal: Callable[[str], Refusal | None]) -> list[dict[str, object]]:
    """Return the secrets that have no value now, or not for much longer, or that a server refuses, for `status`."""
    return [
        {**as_row(one), "refused_by": refused.host if refused else "", "refused": refused.time if refused else None}
        for one in listed(folder)
        if (refused := _refused(one, refusal)) or isinstance(one, Unresolved) or one.expires_soon
    ]


def _refused(one: Secret | Unresolved, refusal: Callable[[str], Refusal | None]) -> Refusal | None:
    """Return the refusal of the value that the secret has now."""
    found = refusal(one.name) if isinstance(one, Secret) else None
    return found if found and isinstance(one, Secret) and found.time >= one.since else None


def remove_secret(folder: Path, name: str) -> None:
    """Remove a secret. Raises UserError if there is none of that name."""
    try:
        (folder / parse_secret_name(name)).unlink()
        _forget(folder, name)
    except (InvalidValue, FileNotFoundError) as error:
        raise UserError([Problem(where="", what=f"there is no secret {safe_repr(name)}")]) from error


def _forget(folder: Path, name: str) -> None:
    (memory_of(folder) / name).unlink(missing_ok=True)
