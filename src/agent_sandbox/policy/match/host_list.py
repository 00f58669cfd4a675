"""Host lists: files with one host per line, with up to millions of names."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import override

from msgspec import Struct

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach, parse_host_pattern
from agent_sandbox.policy.match.private_hosts import NEVER_PUBLIC, why_private
from agent_sandbox.policy.match.public_suffix import require_no_public_suffix

FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
LINE = re.compile(r"^[^#\n]+", re.MULTILINE)
# Nearly every line: a canonical name that is neither an address, because its last label starts with a letter, nor IDNA.
PLAIN = re.compile(r"(?!.{254}|xn--|.*\.xn--)(?:[a-z0-9_]++(?:-++[a-z0-9_]++)*+\.)++[a-z][a-z0-9]*+")
MAX_INVALID = 100  # problems that are reported before reading stops
PIECE = 1 << 20  # hashed in pieces: encoding all at once would dominate the memory use of loading
PRIVATE = NEVER_PUBLIC | {"arpa"}  # these need the full check
WITHOUT = " without "
LONG_LABEL = re.compile(r"[^.]{64}")
# About so many names share a text, which is found by hash and then searched as a string.
SHARING = 16
END = "\n"


class HostSet(Struct, frozen=True):
    """Canonical hosts, one per line in the text that `texts` has for their hash.

    A set of strings takes 130 bytes per name; this takes little more than the file.
    """

    texts: tuple[str, ...]
    mask: int

    def __contains__(self, host: str) -> bool:
        # A host never contains a line end, so it only matches a whole line.
        return f"{END}{host}{END}" in self.texts[hash(host) & self.mask]

    def __len__(self) -> int:
        return sum(text.count(END) - 1 for text in self.texts)

    def any_ends_in(self, ending: str) -> bool:
        """Return whether a name in the set has this ending."""
        return any(f"{ending}{END}" in text for text in self.texts)

    def like(self, host: str) -> str:
        """Return a name in the set that matches, with `*` for part of a label; empty if there is none.

        Searching a million names takes some ten milliseconds.
        """
        if "*" not in host:
            return host if host in self else ""
        wanted = re.compile(f"{END}({'[^.\n]*'.join(map(re.escape, host.split('*')))}){END}")
        ending = host.rpartition("*")[2] + END
        found = (wanted.search(text) for text in self.texts if ending in text)
        return next((one[1] for one in found if one), "")


def host_set(names: Iterable[str], *, about: int) -> HostSet:
    """Return the set of the names; `about` is their approximate number.

    >>> "a.test" in host_set(["a.test", "b.test"], about=2), "test" in host_set(["a.test"], about=1)
    (True, False)
    """
    mask = (1 << (about // SHARING).bit_length()) - 1
    texts = [END] * (mask + 1)
    for name in names:
        texts[hash(name) & mask] += name + END
    return HostSet(tuple(texts), mask)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedHosts(HostPattern):
    """All hosts of a list as one pattern. Its name has the file's name, a digest of its content and what was dropped.

    `dropped` are the patterns that a higher layer has replaced.
    """

    exact: HostSet = field(repr=False, compare=False)
    below: HostSet = field(repr=False, compare=False)
    wild: bool = field(repr=False, compare=False)
    dropped: frozenset[HostPattern] = frozenset()

    @property
    def file(self) -> str:
        """The name of the file, which is in the same directory as the policy file."""
        return self.name.partition(" ")[0]

    @override
    def matches(self, host: str) -> bool:
        if self.dropped:
            names = ((Reach.EXACT, host), *((Reach.BELOW, above) for above in _above(host)))
            return any(self._holds(HostPattern(reach=reach, name=name)) for reach, name in names)
        return host in self.exact or (self.wild and any(above in self.below for above in _above(host)))

    def without(self, patterns: Iterable[HostPattern]) -> "ListedHosts":
        """Return the list without the hosts and wildcards that these patterns contain."""
        every = self.dropped.union(filter(self._holds_any_of, patterns))
        # A pattern that another one contains is redundant; removing it makes the result independent of the steps.
        dropped = frozenset(
            one for one in every if not any(wide in every for wide in islice(one.containing(), 1, None))
        )
        if dropped == self.dropped:
            return self
        name = f"{self.name.partition(WITHOUT)[0]}{WITHOUT}{', '.join(sorted(map(str, dropped)))}"
        return replace(self, name=name, dropped=dropped)

    def _holds_any_of(self, pattern: HostPattern) -> bool:
        """Return whether the list has a host or wildcard that the pattern contains."""
        name = pattern.name
        at_apex = name in self.exact and pattern.reach is not Reach.BELOW
        if pattern.reach is Reach.EXACT or at_apex:
            return at_apex
        if pattern.reach is Reach.EVERY:
            return True
        return name in self.below or self.exact.any_ends_in(f".{name}") or self.below.any_ends_in(f".{name}")

    def _holds(self, pattern: HostPattern) -> bool:
        """Return whether the list has this host or wildcard and it is not dropped."""
        if pattern.name not in (self.exact if pattern.reach is Reach.EXACT else self.below):
            return False
        return self.dropped.isdisjoint(pattern.containing())


class Unlisted(Struct, frozen=True, kw_only=True):
    """A line of a list that is not a host that can be allowed."""

    line: int
    what: str
    hint: str


def parse_file_name(text: str) -> str:
    """Return the name of a host list file, or raise InvalidValue."""
    if not FILE_NAME.fullmatch(text):
        raise InvalidValue(
            "the host list has to be in the directory of the policy file",
            "write only the file name: `domains_file: hosts.txt`",
        )
    return text


def parse_host_list(text: str, *, name: str) -> tuple[ListedHosts, list[Unlisted]]:
    """Return the hosts of a list, and its invalid lines."""
    invalid: list[Unlisted] = []
    wild: list[str] = []
    exact = host_set(_names(text, wild, invalid), about=text.count("\n") + 1)
    below = host_set(wild, about=len(wild))
    listed = ListedHosts(
        reach=Reach.LISTED, name=f"{name} (sha256 {_digest(text)})", exact=exact, below=below, wild=bool(wild)
    )
    return listed, invalid


def _names(text: str, wild: list[str], invalid: list[Unlisted]) -> Iterator[str]:
    """Yield the names of single hosts; append wildcards to `wild` and invalid lines to `invalid`."""
    number, counted = 1, 0
    for found in LINE.finditer(text):
        line = found[0].strip()
        if not line:
            continue
        if PLAIN.fullmatch(line) and not LONG_LABEL.search(line) and line.rpartition(".")[2] not in PRIVATE:
            yield line
            continue
        try:
            pattern = _reachable(line)
        except InvalidValue as error:
            number, counted = number + text.count("\n", counted, found.start()), found.start()
            invalid.append(Unlisted(line=number, what=error.what, hint=error.hint))
            if len(invalid) == MAX_INVALID:
                return
            continue
        if pattern.reach is not Reach.EXACT:
            wild.append(pattern.name)
        if pattern.reach is not Reach.BELOW:
            yield pattern.name


def _reachable(line: str) -> HostPattern:
    pattern = parse_host_pattern(line)
    if pattern.reach is Reach.EVERY:
        raise InvalidValue("`*` is not possible in a host list", "name the hosts")
    require_no_public_suffix(pattern)
    why = why_private(pattern.name)
    if why is not None:
        raise InvalidValue(f"{pattern} {why}", "remove it: private hosts go under `host_services`")
    return pattern


def _above(host: str) -> Iterator[str]:
    dot = host.find(".")
    while dot != -1:
        yield host[dot + 1 :]
        dot = host.find(".", dot + 1)


def _digest(text: str) -> str:
    found = hashlib.sha256()
    for start in range(0, len(text), PIECE):
        found.update(text[start : start + PIECE].encode())
    return found.hexdigest()
