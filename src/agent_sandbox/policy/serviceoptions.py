"""What a policy chooses of a service: which repositories, and how much of each part of it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, override

from agent_sandbox.policy.pathpattern import PathKind, PathPattern, parse_path_pattern
from agent_sandbox.policy.quoted import quoted
from agent_sandbox.policy.unfit import Unfit

# What an option of a service holds: names of repositories, or how much is allowed, from the least to the most.
Repositories = Literal["repositories"]
Levels = tuple[str, ...]
Declared = Mapping[str, Repositories | Levels]

PLACEHOLDER = "{repo}"
ANY_REPOSITORY = "*/*"
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
    levels: Mapping[str, Levels] = field(default_factory=dict)
    readonly: bool = False

    def meets(self, when: Mapping[str, str]) -> bool:
        """Tell whether a rule that says `when` is meant."""
        return all(self._meets(option, wanted) for option, wanted in when.items())

    def _meets(self, option: str, wanted: str) -> bool:
        if wanted in {ANY, NAMED}:
            return bool(self.repositories) == (wanted == NAMED)
        return wanted in self.levels.get(option, ())

    def paths(self, pattern: PathPattern) -> Iterator[PathPattern]:
        """Yield the pattern for each repository; as it is where it speaks of none."""
        if PLACEHOLDER not in pattern.text:
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
            raise UnfitOption(f"service {service} has no option {quoted(name)}", _known(name, declared), name)
    repositories: tuple[str, ...] = ()
    levels: dict[str, Levels] = {}
    for name, value in given.items():
        kind = declared[name]
        if isinstance(kind, tuple):
            levels[name] = kind[: kind.index(_level(name, kind, value)) + 1]
        else:
            repositories = _repositories(name, value)
    least = {name: kind[:1] for name, kind in declared.items() if isinstance(kind, tuple)}
    return Chosen(repositories=repositories, levels=levels or least, readonly=readonly)


def _repositories(option: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise UnfitOption(f"`{option}` is a list of repositories", f"write `{option}: [owner/name]`", option)
    for number, name in enumerate(value):
        if not isinstance(name, str) or not is_repository(name):
            what = f"{quoted(name) if isinstance(name, str) else 'this'} is no repository"
            raise UnfitOption(what, 'write `owner/name`, or "owner/*" for all of an owner', option, number)
    return tuple(sorted({name.lower() for name in value}))


def is_repository(name: str) -> bool:
    """Tell whether this names a repository, or with a star all of an owner."""
    last = name.rpartition("/")[2]
    return REPOSITORY.fullmatch(name) is not None and last not in {".", ".."} and not last.endswith(".git")


def _level(option: str, levels: Levels, value: object) -> str:
    example = f"write `{option}: {{access: {levels[0]}}}`"
    if not isinstance(value, dict) or "access" not in value:
        raise UnfitOption(f"`{option}` says how much with `access`", example, option)
    for key in value:
        if key != "access":
            raise UnfitOption(f"unknown key {quoted(key)}", example, option, key)
    if value["access"] not in levels:
        word = str(value["access"])
        raise UnfitOption(f"unknown access {quoted(word)}", _known(word, levels), option, "access")
    return str(value["access"])


def _known(word: str, known: Sequence[str] | Mapping[str, object]) -> str:
    near = get_close_matches(word, known, n=1)
    if near:
        return f"did you mean `{near[0]}`?"
    return (
        f"known are {', '.join(sorted((*known, 'readonly', 'merge_mode')))}"
        if isinstance(known, Mapping)
        else (f"known are {', '.join(known)}")
    )
