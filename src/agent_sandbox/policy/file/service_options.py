"""The options that a policy sets on a service: which repositories, and how much access to each part."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Literal, override

from msgspec import Struct

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.credential_kind import BEARER
from agent_sandbox.policy.match.injection import Credential, Existing, Injection, parse_secret_name
from agent_sandbox.policy.match.path_pattern import PathKind, PathPattern, parse_path_pattern
from agent_sandbox.policy.match.ssh_address import repository_of
from agent_sandbox.policy.text import safe_repr

# Nested ones are in groups: `group/subgroup/name`.
Repositories = Literal["repositories", "nested repositories"]
Levels = tuple[str, ...]


class Auth(Struct, frozen=True, kw_only=True):
    """How a service, or a part of one, takes a secret.

    It is sent to `host` and `more_hosts`, in `header`. `client_shim` is what clients need to send a placeholder, which
    is in the variables `env` and `also` and begins with `prefix`. `others` and `parameters` are more headers, and
    parameters of the query, in which the server takes a credential. `test` is the path of a harmless GET that needs the
    secret.
    """

    host: str
    more_hosts: tuple[str, ...] = ()
    kind: str = BEARER
    username: str | None = None
    region: str | None = None
    service: str | None = None
    header: str = "authorization"
    client_shim: str = ""
    env: str = ""
    also: tuple[str, ...] = ()
    prefix: str = ""
    others: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    test: str = ""

    def injection(self, secret: str, existing: Existing, *, placeholder: bool) -> Injection:
        """Return the injection of the secret with this name."""
        credential = Credential(
            header=self.header,
            secret=secret,
            kind=self.kind,
            username=self.username,
            region=self.region,
            service=self.service,
            env=self.env if placeholder else "",
            also=self.also if placeholder else (),
            prefix=self.prefix if placeholder else "",
            others=self.others,
            parameters=self.parameters,
        )
        return Injection(credentials=(credential,), existing=existing)


class Access(Struct, frozen=True, kw_only=True):
    """The access levels of a part, lowest first."""

    levels: Levels
    auth: Auth | None = None


# The options of a service by name: each takes repositories, an access level, or a secret for the whole service.
Declared = Mapping[str, Repositories | Access | Auth]

PLACEHOLDER = "{repo}"
ANY_REPOSITORY: Mapping[Repositories, str] = {"repositories": "*/*", "nested repositories": "**"}
NESTED: Repositories = "nested repositories"
MAX_GROUPS = 20
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?:\*|[A-Za-z0-9._-]{1,100})")
# `-` is not the name of a group: what follows it in a path is a page of the repository.
NESTED_REPOSITORY = re.compile(
    rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,99}}(?:/[A-Za-z0-9_.-]{{1,100}}){{0,{MAX_GROUPS}}}/(?:\*|[A-Za-z0-9._-]{{1,100}})"
)
# After a key in `InvalidOption.at`: the key itself, not its value.
KEY = "[key]"
# Options that other products have, and people try.
ACCESS_WORDS = frozenset({"access", "level", "permission", "permissions", "push", "read", "readwrite", "write"})
# In `Chosen.secrets`: a secret of the whole service.
WHOLE = ""
# The keys of a repository that is written as a mapping.
NAME, ACCESS = "name", "access"
# Values of `when` in a rule: whether the policy names repositories, and whether it gives the option no secret.
ANY, NAMED = "any", "named"
UNSET = "unset"


class InvalidOption(InvalidValue):
    """An invalid option of a service; `at` is its location below the entry."""

    def __init__(self, what: str, hint: str, *at: str | int) -> None:
        super().__init__(what, hint)
        self.at = at

    @override
    def __reduce__(self) -> tuple[type["InvalidOption"], tuple[object, ...]]:
        return InvalidOption, (self.what, self.hint, *self.at)


class Chosen(Struct, frozen=True, kw_only=True):
    """The options of one entry. `levels` holds all levels up to the chosen one: `readwrite` includes `read`."""

    repositories: tuple[str, ...] = ()
    # The highest level of repositories that have less access than the parts.
    limits: Mapping[str, str] = {}
    # The service's kind of repositories; without it `{repo}` is ordinary text in a path.
    kind: Repositories | None = None
    levels: Mapping[str, Levels] = {}
    # By the option in the `when` of a rule, or WHOLE, and the rule's host.
    secrets: Mapping[tuple[str, str], Injection] = {}
    # The options that give the whole service a secret.
    keys: frozenset[str] = frozenset()
    readonly: bool = False

    def meets(self, when: Mapping[str, str]) -> bool:
        """Return whether a rule with this `when` applies."""
        chosen = all(self._meets(option, wanted) for option, wanted in when.items())
        return chosen and (not self.repositories or any(self._reaches(one, when) for one in self.repositories))

    def _meets(self, option: str, wanted: str) -> bool:
        if wanted in {ANY, NAMED}:
            return bool(self.repositories) == (wanted == NAMED)
        if wanted == UNSET:
            return option not in self.keys
        return wanted in self.levels.get(option, ())

    def reached(self, when: Mapping[str, str]) -> tuple[str, ...]:
        """Return the repositories whose access is enough for a rule with this `when`."""
        return tuple(one for one in self.repositories if self._reaches(one, when))

    def _reaches(self, repository: str, when: Mapping[str, str]) -> bool:
        """Return whether the access to this repository is enough for a rule with this `when`."""
        limit = self.limits.get(repository)
        if limit is None:
            return True
        reached = {
            option: levels[: levels.index(limit) + 1] for option, levels in self.levels.items() if limit in levels
        }
        return all(wanted in reached[option] for option, wanted in when.items() if option in reached)

    def secret_for(self, host: str, when: Mapping[str, str]) -> Injection | None:
        """Return what is injected into requests of a rule with this host and `when`."""
        return next((self.secrets[option, host] for option in (*when, WHOLE) if (option, host) in self.secrets), None)

    def paths(self, pattern: PathPattern, when: Mapping[str, str]) -> Iterator[PathPattern]:
        """Yield the pattern for each repository with enough access, or the pattern itself if it has no placeholder."""
        if self.kind is None or PLACEHOLDER not in pattern.text:
            yield pattern
            return
        for repository in self.repositories or (ANY_REPOSITORY[self.kind],):
            if self._reaches(repository, when):
                yield from _paths_of(pattern, repository)


def _paths_of(pattern: PathPattern, repository: str) -> Iterator[PathPattern]:
    start = pattern.text.index(PLACEHOLDER)
    text = pattern.text.replace(PLACEHOLDER, repository)
    # Names are case-insensitive up to their star, as they are for the servers.
    any_case = (start, start + len(repository.partition("*")[0]))
    if "*" not in repository or pattern.kind is PathKind.GLOB:
        yield parse_path_pattern(pattern.kind, text, any_case=any_case)
        return
    yield parse_path_pattern(PathKind.GLOB, text.removesuffix("/"), any_case=any_case)
    if pattern.kind is PathKind.PREFIX:
        yield parse_path_pattern(PathKind.GLOB, f"{text.removesuffix('/')}/**", any_case=any_case)


def choose(service: str, declared: Declared, given: Mapping[str, object], *, readonly: bool = False) -> Chosen:
    """Return the parsed options of an entry, or raise InvalidOption.

    If no part is named, all parts have their lowest level. If one is named, the others are not allowed.
    """
    for name in given:
        if name not in declared:
            raise InvalidOption(
                f"service {service} has no option {safe_repr(name)}", _access_hint(name, declared), name, KEY
            )
    repositories: dict[str, str] = {}
    levels: dict[str, Levels] = {}
    secrets: dict[tuple[str, str], Injection] = {}
    for name, value in given.items():
        kind = declared[name]
        if isinstance(kind, Auth):
            injection = _secret_of_service(name, kind, value)
            for host in (kind.host, *kind.more_hosts):
                if (WHOLE, host) in secrets:
                    raise InvalidOption(f"service {service} has two secrets for {host}", "keep one of them", name, KEY)
                secrets[WHOLE, host] = injection
            continue
        if not isinstance(kind, Access):
            repositories = _repositories(name, value, _all_levels(declared), kind)
            continue
        options = _access(name, kind, value)
        levels[name] = kind.levels[: kind.levels.index(_level(kind.levels, options[ACCESS], name, ACCESS)) + 1]
        if kind.auth and "auth" in options:
            secrets[name, kind.auth.host] = _secret(name, kind.auth, options["auth"])
    of_repositories = next((kind for kind in declared.values() if isinstance(kind, str)), None)
    if secrets and not repositories and of_repositories:
        what, hint = "a secret needs named repositories", "write `repos: [owner/name]`"
        raise InvalidOption(what, hint, *min(secrets)[:1])
    least = {name: kind.levels[:1] for name, kind in declared.items() if isinstance(kind, Access)}
    return Chosen(
        repositories=tuple(sorted(repositories)),
        limits={repository: limit for repository, limit in repositories.items() if limit},
        kind=of_repositories,
        levels=levels or least,
        secrets=secrets,
        keys=frozenset(name for name in given if isinstance(declared[name], Auth)),
        readonly=readonly,
    )


def _all_levels(declared: Declared) -> Levels:
    """Return the levels of all parts, each once."""
    levels = (kind.levels for kind in declared.values() if isinstance(kind, Access))
    return tuple(dict.fromkeys(level for each in levels for level in each))


def _repositories(option: str, value: object, levels: Levels, kind: Repositories) -> dict[str, str]:
    """Return the repositories with the highest level of each, empty for no limit."""
    if not isinstance(value, list) or not value:
        example = value if isinstance(value, str) and is_repository(value, kind) else "owner/name"
        raise InvalidOption(f"`{option}` has to be a list of repositories", f"write `{option}: [{example}]`", option)
    found: dict[str, str] = {}
    for number, one in enumerate(value):
        name, limit = _limited(one, levels, option, number) if isinstance(one, dict) else (one, "")
        if not isinstance(name, str) or not is_repository(name, kind):
            what = f"not a repository{f': {safe_repr(name)}' if isinstance(name, str) else ''}"
            meant = repository_of(name) if isinstance(name, str) else ""
            example = f"`{meant}`" if is_repository(meant, kind) else '`owner/name`, or "owner/*" for all of an owner'
            raise InvalidOption(what, f"write {example}", option, number)
        if found.setdefault(name.lower(), limit) != limit:
            raise InvalidOption(f"{name} is named twice, with different access", "keep one of them", option, number)
    _refuse_hidden(found, option)
    return found


def _limited(value: Mapping[str, object], levels: Levels, *at: str | int) -> tuple[object, str]:
    """Return the name of a repository that is written with its access, and the access."""
    example = f"write `{{name: owner/name, access: {levels[0]}}}`" if levels else "write `owner/name`"
    if NAME not in value or ACCESS not in value:
        raise InvalidOption("a repository with options needs `name` and `access`", example, *at)
    _refuse_unknown(value, (NAME, ACCESS), example, *at)
    return value[NAME], _level(levels, value[ACCESS], *at, ACCESS)


def _refuse_hidden(found: Mapping[str, str], option: str) -> None:
    """Reject less access for one repository where `owner/*` has more: it would have no effect."""
    for name, limit in found.items():
        owners = f"{name.partition('/')[0]}/*"
        if limit and found.get(owners, limit) != limit:
            what = f"{name} would have the access of {owners}"
            raise InvalidOption(what, f"remove {name}, or name the owner's repositories one by one", option)


def repository_name(item: str | Mapping[str, str]) -> str:
    """Return the name of an item of `repos`, which may have its own access."""
    return item if isinstance(item, str) else item[NAME]


def is_repository(name: str, kind: Repositories = "repositories") -> bool:
    """Return whether this is a repository (`owner/name`), or `owner/*`."""
    *owners, last = name.split("/")
    pattern = REPOSITORY if kind != NESTED else NESTED_REPOSITORY
    return pattern.fullmatch(name) is not None and not {".", "..", "-"} & {*owners, last} and not last.endswith(".git")


def _access(option: str, kind: Access, value: object) -> Mapping[str, object]:
    example = f"write `{option}: {{access: {kind.levels[0]}}}`"
    if not isinstance(value, dict) or "access" not in value:
        raise InvalidOption(f"`{option}` needs `access`", example, option)
    _refuse_unknown(value, ("access", "auth") if kind.auth else ("access",), example, option)
    return value


def _level(levels: Levels, given: object, *at: str | int) -> str:
    if given not in levels:
        word = str(given)
        raise InvalidOption(f"unknown access {safe_repr(word)}", _known(word, levels), *at)
    return str(given)


def _secret(option: str, auth: Auth, value: object) -> Injection:
    at = (option, "auth")
    example = "write `auth: {secret: NAME}`"
    if not isinstance(value, dict) or not isinstance(value.get("secret"), str):
        raise InvalidOption("`auth` needs a secret", example, *at)
    _refuse_unknown(value, ("secret", "client_shim"), example, *at)
    shim = {"kind": auth.client_shim}
    if value.get("client_shim", shim) != shim:
        hint = f"write `client_shim: {{kind: {auth.client_shim}}}`"
        raise InvalidOption(f"`{option}` does not have this `client_shim`", hint, *at, "client_shim")
    # A client with a placeholder sends it in the header, which the secret then replaces.
    has_placeholder = "client_shim" in value
    existing = Existing.REPLACE if has_placeholder else Existing.FAIL
    return auth.injection(_secret_name(value["secret"], *at, "secret"), existing, placeholder=has_placeholder)


def _secret_of_service(option: str, auth: Auth, value: object) -> Injection:
    known = ("name", "on_existing_header")
    given = {"name": value} if isinstance(value, str) else value
    example = f"write `{option}: NAME`, or `{option}: {{name: NAME, on_existing_header: keep}}`"
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise InvalidOption(f"`{option}` needs the name of a secret", example, option)
    _refuse_unknown(given, known, example, option)
    existing = given.get("on_existing_header", Existing.FAIL)
    if existing not in tuple(Existing):
        word = str(existing)
        raise InvalidOption(f"unknown value {safe_repr(word)}", _known(word, tuple(Existing)), option, known[1])
    at = (option,) if isinstance(value, str) else (option, known[0])
    return auth.injection(_secret_name(given["name"], *at), Existing(existing), placeholder=True)


def _secret_name(text: str, *at: str) -> str:
    try:
        return parse_secret_name(text)
    except InvalidValue as invalid:
        raise InvalidOption(invalid.what, invalid.hint, *at) from invalid


def _refuse_unknown(value: Mapping[str, object], known: Sequence[str], hint: str, *at: str | int) -> None:
    for key in value:
        if key not in known:
            raise InvalidOption(f"unknown key {safe_repr(key)}", hint, *at, key, KEY)


def _access_hint(name: str, declared: Declared) -> str:
    """Return the hint for an unknown option; one that sounds like access is answered with the highest level."""
    kinds = ((option, kind) for option, kind in declared.items() if isinstance(kind, Access) and kind.levels[1:])
    parts = [f"`{option}: {{access: {kind.levels[-1]}}}`" for option, kind in kinds]
    if name.casefold() not in ACCESS_WORDS or not parts:
        return _known(name, declared)
    return f"access is set for each part: {', '.join(parts)}"


def _known(word: str, known: Sequence[str] | Mapping[str, object]) -> str:
    spelled = {right.casefold(): right for right in known}
    near = get_close_matches(word.casefold(), spelled, n=1)
    if near:
        return f"did you mean `{spelled[near[0]]}`?"
    return (
        f"known: {', '.join(sorted((*known, 'budget', 'readonly', 'merge_mode')))}"
        if isinstance(known, Mapping)
        else (f"known: {', '.join(known)}")
    )
