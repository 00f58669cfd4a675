"""The secret store: one file per secret in a volume that only the proxy mounts, with the hosts it is bound to."""

import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_sandbox.atomic_file import write_file
from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.policy.errors import Ambiguous, InvalidValue
from agent_sandbox.policy.http.host import canonical_host
from agent_sandbox.policy.match.injection import SECRET, parse_secret_name
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.problems import Problem, UserError

RECREATE = "run agent-sandbox init, then agent-sandbox up, to create a stack that can store secrets"
# A shorter secret would match other text in responses by chance.
SHORTEST, LONGEST = 8, 64 * 1024
VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A secret. Its `repr` does not contain the value."""

    name: str
    hosts: tuple[str, ...]
    value: str = field(repr=False)


def read_secret(folder: Path, name: str) -> Secret | None:
    """Return the secret, None if it does not exist or its file is not valid."""
    if not SECRET.fullmatch(name):
        return None
    try:
        handle = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        whole = os.read(handle, 4 * LONGEST) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    finally:
        os.close(handle)
    return _parsed(name, whole)


def _parsed(name: str, data: bytes) -> Secret | None:
    try:
        content = read_json(data)
    except NotJsonError:
        return None
    match content:
        case {"hosts": [*hosts], "value": str() as value} if _is_fit(value):
            return Secret(name=name, hosts=tuple(map(str, hosts)), value=value)
    return None


def _is_fit(value: str) -> bool:
    return SHORTEST <= len(value) <= LONGEST and VALUE.fullmatch(value) is not None


def put_secret(folder: Path, name: str, hosts: Sequence[str], value: bytes) -> None:
    """Write or replace a secret atomically. Raises UserError if it is invalid or cannot be written."""
    problems = list(_problems(name, hosts, value))
    if problems:
        raise UserError(problems)
    content = {"hosts": sorted({canonical_host(host) for host in hosts}), "value": _text(value)}
    try:
        write_file(folder / name, json.dumps(content).encode("ascii"))
    except OSError as error:
        what = f"cannot store the secret: {error.strerror}"
        raise UserError([Problem(where="", what=what, hint=RECREATE)]) from error


def _problems(name: str, hosts: Sequence[str], value: bytes) -> Iterator[Problem]:
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
    if not _is_fit(_text(value)):
        what = f"the value is not one line of {SHORTEST} to {LONGEST} ASCII characters"
        yield Problem(where="", what=what, hint='pass it on stdin: printf %s "$VALUE" | ...')


def _text(value: bytes) -> str:
    return value.removesuffix(b"\n").removesuffix(b"\r").decode("latin-1")


def listed(folder: Path) -> list[Secret]:
    """Return all secrets, sorted by name."""
    found = (read_secret(folder, path.name) for path in sorted(folder.iterdir())) if folder.is_dir() else ()
    return [secret for secret in found if secret is not None]


def remove_secret(folder: Path, name: str) -> None:
    """Remove a secret. Raises UserError if there is none of that name."""
    try:
        (folder / parse_secret_name(name)).unlink()
    except (InvalidValue, FileNotFoundError) as error:
        raise UserError([Problem(where="", what=f"there is no secret {safe_repr(name)}")]) from error
