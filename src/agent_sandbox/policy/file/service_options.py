"""What a policy chooses of a service: which repositories, and how much of each part of it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, override

from agent_sandbox.policy.errors import Unfit
from agent_sandbox.policy.match.injection import Credential, Injection, parse_secret_name
from agent_sandbox.policy.match.path_pattern import PathKind, PathPattern, parse_path_pattern
from agent_sandbox.policy.text import safe_repr

Repositories = Literal["repositories"]
Levels = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """How a part of a service takes a secret: at which host, and as what. `client_shim` is what clients want for it."""

    host: str
    username: str | None = None
    client_shim: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How much of a part is allowed, from the least to the most."""

    levels: Levels
    auth: Auth | None = None


# What an option of a service holds: names of repositories, or how much is allowed.
Declared = Mapping[str, Repositories | Access]

PLACEHOLDER = "{repo}"
ANY_REPOSITORY = "*/*"
REPOSITORIES: Repositories = "repositories"
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?:\*|[A-Za-z0-9._-]{1,100})")
# How a rule asks whether repositories are named.
ANY, NAMED = "any", "named"


class UnfitOption(Unfit):
    """An option that a service does not take; `at` is where below the entry it stands."""

    def __init__(self, what: str, hint: str, *at: str | int) -> None:
        super().__init__(what, hint)
        self.at = at

    @override
    def __reduce__(self) -> tuple[type["UnfitOption"], tuple[object, ...]]:
        return UnfitOption, (self.what, self.hint, *self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The options of one entry; `levels` holds those that are reached, so that `readwrite` holds `read`, too."""

    repositories: tuple[str, ...] = ()
    # Whether there is an option that names some; without it `{repo}` is a path like any other.
    has_repositories: bool = False
    levels: Mapping[str, Levels] = field(default_factory=dict)
    # By the option that a rule asks for and the host that it is for.
    secrets: Mapping[tuple[str, str], Injection] = field(default_factory=dict)
    readonly: bool = False

    def meets(self, when: Mapping[str, str]) -> bool:
        """Tell whether a rule that says `when` is meant."""
        return all(self._meets(option, wanted) for option, wanted in when.items())

    def _meets(self, option: str, wanted: str) -> bool:
        if wanted in {ANY, NAMED}:
            return bool(self.repositories) == (wanted == NAMED)
        return wanted in self.levels.get(option, ())

    def secret_for(self, host: str, when: Mapping[str, str]) -> Injection | None:
        """Return what goes into the requests of a rule of this host that says `when`."""
        return next((self.secrets[option, host] for option in when if (option, host) in self.secrets), None)

    def paths(self, pattern: PathPattern) -> Iterator[PathPattern]:
        """Yield the pattern for each repository; as it is where it speaks of none."""
        if not self.has_repositories or PLACEHOLDER not in pattern.text:
            yield pattern
            return
        for repository in self.repositories or (ANY_REPOSITORY,):
            yield from _paths_of(pattern, repository)


def _paths_of(pattern: PathPattern, repository: str) -> Iterator[PathPattern]:
    start = pattern.text.index(PLACEHOLDER)
    text = pattern.text.replace(PLACEHOLDER, repository)
    # Up to its star a name is held against the path in any case: so do those who keep repositories.
    any_case = (start, start + len(repository.partition("*")[0]))
    if "*" not in repository or pattern.kind is PathKind.GLOB:
        yield parse_path_pattern(pattern.kind, text, any_case=any_case)
        return
    yield parse_path_pattern(PathKind.GLOB, text.removesuffix("/"), any_case=any_case)
    if pattern.kind is PathKind.PREFIX:
        yield parse_path_pattern(PathKind.GLOB, f"{text.removesuffix('/')}/**", any_case=any_case)


def choose(service: str, declared: Declared, given: Mapping[str, object], *, readonly: bool = False) -> Chosen:
    """Return what the options of an entry come to, or raise UnfitOption.

    Levels of which none is named are all at their least; where one is named, the others are left out.
    """
    for name in given:
        if name not in declared:
            raise UnfitOption(f"service {service} has no option {safe_repr(name)}", _known(name, declared), name)
    repositories: tuple[str, ...] = ()
    levels: dict[str, Levels] = {}
    secrets: dict[tuple[str, str], Injection] = {}
    for name, value in given.items():
        kind = declared[name]
        if not isinstance(kind, Access):
            repositories = _repositories(name, value)
            continue
        said = _access(name, kind, value)
        levels[name] = kind.levels[: kind.levels.index(_level(name, kind.levels, said)) + 1]
        if kind.auth and "auth" in said:
            secrets[name, kind.auth.host] = _secret(name, kind.auth, said["auth"])
    if secrets and not repositories and REPOSITORIES in declared.values():
        what, hint = "a secret goes to repositories that are named", "write `repos: [owner/name]`"
        raise UnfitOption(what, hint, *min(secrets)[:1])
    least = {name: kind.levels[:1] for name, kind in declared.items() if isinstance(kind, Access)}
    return Chosen(
        repositories=repositories,
        has_repositories=REPOSITORIES in declared.values(),
        levels=levels or least,
        secrets=secrets,
        readonly=readonly,
    )


def _repositories(option: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise UnfitOption(f"`{option}` is a list of repositories", f"write `{option}: [owner/name]`", option)
    for number, name in enumerate(value):
        if not isinstance(name, str) or not is_repository(name):
            what = f"{safe_repr(name) if isinstance(name, str) else 'this'} is no repository"
            raise UnfitOption(what, 'write `owner/name`, or "owner/*" for all of an owner', option, number)
    return tuple(sorted({name.lower() for name in value}))


def is_repository(name: str) -> bool:
    """Tell whether this names a repository, or with a star all of an owner."""
    last = name.rpartition("/")[2]
    return REPOSITORY.fullmatch(name) is not None and last not in {".", ".."} and not last.endswith(".git")


def _access(option: str, kind: Access, value: object) -> Mapping[str, object]:
    example = f"write `{option}: {{access: {kind.levels[0]}}}`"
    if not isinstance(value, dict) or "access" not in value:
        raise UnfitOption(f"`{option}` says how much with `access`", example, option)
    _refuse_unknown(value, ("access", "auth") if kind.auth else ("access",), example, option)
    return value


def _level(option: str, levels: Levels, said: Mapping[str, object]) -> str:
    if said["access"] not in levels:
        word = str(said["access"])
        raise UnfitOption(f"unknown access {safe_repr(word)}", _known(word, levels), option, "access")
    return str(said["access"])


def _secret(option: str, auth: Auth, value: object) -> Injection:
    at = (option, "auth")
    example = "write `auth: {secret: NAME}`"
    if not isinstance(value, dict) or not isinstance(value.get("secret"), str):
        raise UnfitOption("`auth` names a secret", example, *at)
    _refuse_unknown(value, ("secret", "client_shim"), example, *at)
    shim = {"kind": auth.client_shim}
    if value.get("client_shim", shim) != shim:
        hint = f"write `client_shim: {{kind: {auth.client_shim}}}`"
        raise UnfitOption(f"no `client_shim` of `{option}`", hint, *at, "client_shim")
    try:
        secret = parse_secret_name(value["secret"])
    except Unfit as unfit:
        raise UnfitOption(unfit.what, unfit.hint, *at, "secret") from unfit
    credential = Credential(header="authorization", secret=secret, username=auth.username)
    # A client that has been given a stand-in sends it along.
    return Injection(credentials=(credential,), replaces="client_shim" in value)


def _refuse_unknown(value: Mapping[str, object], known: Sequence[str], hint: str, *at: str) -> None:
    for key in value:
        if key not in known:
            raise UnfitOption(f"unknown key {safe_repr(key)}", hint, *at, key)


def _known(word: str, known: Sequence[str] | Mapping[str, object]) -> str:
    spelled = {right.casefold(): right for right in known}
    near = get_close_matches(word.casefold(), spelled, n=1)
    if near:
        return f"did you mean `{spelled[near[0]]}`?"
    return (
        f"known are {', '.join(sorted((*known, 'readonly', 'merge_mode')))}"
        if isinstance(known, Mapping)
        else (f"known are {', '.join(known)}")
    )
