"""Which repositories of a git server the sandbox may read, and which it may also write."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.features.stack.init.own_places import place_of
from agent_sandbox.host.git.remotes import Named, named_repositories, parse_address
from agent_sandbox.policy.file.service_options import (
    ACCESS,
    NAME,
    Access,
    Auth,
    Declared,
    Repositories,
    is_repository,
    repository_name,
)
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project_file import read_only_mounts_of

READ, WRITE = "read", "readwrite"
REPOSITORIES, GIT = "repos", "git"


class Server(Struct, frozen=True, kw_only=True):
    """A git server: its host, and its kind of repositories."""

    host: str
    kind: Repositories


class Wanted(Struct, frozen=True, kw_only=True):
    """A repository with its access; `where` says which option or git setting names it."""

    name: str
    access: str
    where: str


def wanted_repositories(
    project: Path, server: Server, written: Sequence[str], read: Sequence[str], *, project_file: str
) -> tuple[Wanted, ...]:
    """Return the named repositories, or those of git's settings in the project and its read-only mounts.

    The mounts are those of `project_file`, the text that the user trusts: the file may name other directories since.
    Of the settings, only the remote that a plain `git push` in the project goes to is also written. Raise UserError for
    invalid names.
    """
    options = [(text, WRITE, "--repo") for text in written] + [(text, READ, "--read") for text in read]
    if not options:
        return _of_settings(project, server, project_file)
    named = [Wanted(name=_repository(text, server), access=access, where=option) for text, access, option in options]
    if problems := [
        _not_a_repository(text, option) for (text, _, option), one in zip(options, named, strict=True) if not one.name
    ]:
        raise UserError(problems)
    return tuple({one.name.lower(): one for one in reversed(named)}.values())[::-1]


def _repository(text: str, server: Server) -> str:
    address = parse_address(text)
    name = address.path if address and address.host == server.host else text
    return name if is_repository(name, server.kind) else ""


def _not_a_repository(text: str, option: str) -> Problem:
    return Problem(where=option, what=f"not a repository of this server: {text!a}", hint="write `owner/name`")


def _of_settings(project: Path, server: Server, project_file: str) -> tuple[Wanted, ...]:
    named = (*named_repositories(project), *_mounted(project, project_file))
    there = (one for one in named if one.address.host == server.host)
    found = [one for one in there if is_repository(one.address.path, server.kind)]
    if not found:
        what = f"no remote of this project leads to a repository on {server.host}"
        raise UserError([Problem(where="git", what=what, hint="name one: --repo owner/name")])
    rows = (Wanted(name=one.address.path, access=WRITE if one.pushed else READ, where=one.where) for one in found)
    return tuple({one.name.lower(): one for one in reversed([*rows])}.values())[::-1]


def _mounted(project: Path, project_file: str) -> Iterator[Named]:
    """Yield the repositories of read-only mounts, to be read: the agent can read their files, and not change them."""
    for path in read_only_mounts_of(project_file):
        for one in named_repositories(place_of(project, path, os.environ)):
            if one.pushed:
                yield replace(one, where=f"mount {path}", pushed=False)


def server_of(declared: Declared) -> Server:
    """Return the server of a service that declares `git` with a token."""
    git, kind = declared[GIT], declared[REPOSITORIES]
    if not isinstance(git, Access) or git.auth is None or not isinstance(kind, str):
        raise TypeError("not the service of a git server")
    return Server(host=git.auth.host, kind=kind)


def options_for(declared: Declared, entry: Mapping[str, Any], wanted: Iterable[Wanted], secret: str) -> dict[str, Any]:
    """Return the options to change in the service's entry in the policy, which is empty if there is none yet.

    What the entry allows already stays, except for repositories that it does not name. Only `git` is added to the parts
    that it chose itself.
    """
    parts = {name: kind for name, kind in declared.items() if isinstance(kind, Access)}
    chosen = [name for name in parts if name in entry]
    access = {repository_name(item).lower(): item for item in _items(entry, GIT)}
    access |= {one.name.lower(): one.name if one.access == WRITE else {NAME: one.name, ACCESS: READ} for one in wanted}
    writes = any(isinstance(item, str) for item in access.values())
    # If nothing may be written, the parts say so, unless the entry has another part that may be.
    limited = writes or any(entry[name].get(ACCESS) == WRITE for name in chosen if name != GIT)
    repositories = [item if limited else repository_name(item) for item in access.values()]
    options: dict[str, Any] = {REPOSITORIES: repositories}
    for name, kind in parts.items():
        if name == GIT or not chosen:
            options[name] = _part(kind, entry.get(name, {}), secret, writes=writes)
    return {name: value for name, value in options.items() if entry.get(name) != value}


def _items(entry: Mapping[str, Any], part: str) -> Iterator[str | dict[str, str]]:
    """Yield the repositories of an entry, each with its limit if it may only be read."""
    limited = entry.get(part, {}).get(ACCESS) != WRITE
    for item in entry.get(REPOSITORIES, ()):
        yield {NAME: item, ACCESS: READ} if limited and isinstance(item, str) else item


def _part(kind: Access, before: Mapping[str, Any], secret: str, *, writes: bool) -> dict[str, Any]:
    access = WRITE if writes and WRITE in kind.levels else kind.levels[0]
    return {**before, ACCESS: access, **({"auth": before.get("auth") or _auth(kind.auth, secret)} if kind.auth else {})}


def _auth(auth: Auth, secret: str) -> dict[str, Any]:
    shim = {"client_shim": {"kind": auth.client_shim}} if auth.env else {}
    return {"secret": secret, **shim}


def secret_of(entry: Mapping[str, Any]) -> str:
    """Return the secret that an entry gives to git, or an empty string."""
    auth = entry.get(GIT, {}).get("auth", {})
    return str(auth.get("secret", ""))


def bound_hosts(declared: Declared, options: Mapping[str, Any], secret: str) -> tuple[str, ...]:
    """Return the hosts that need the secret."""
    auths = (
        (kind.auth, options.get(name, {}).get("auth", {}))
        for name, kind in declared.items()
        if isinstance(kind, Access)
    )
    return tuple(dict.fromkeys(auth.host for auth, given in auths if auth and given.get("secret") == secret))
