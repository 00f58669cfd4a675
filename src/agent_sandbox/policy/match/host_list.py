"""Hosts in a file of their own, one a line: for lists that somebody else keeps, up to millions of names."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import override

from agent_sandbox.policy.errors import Unfit
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach, parse_host_pattern
from agent_sandbox.policy.match.host_set import HostSet, host_set
from agent_sandbox.policy.match.private_hosts import NEVER_PUBLIC, why_private
from agent_sandbox.policy.match.public_suffix import refuse_strangers

FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
LINE = re.compile(r"^[^#\n]+", re.MULTILINE)
# Nearly every line: a name in its canonical form. No end of an address begins with a letter, and none of these is IDNA.
PLAIN = re.compile(r"(?!.{254}|xn--|.*\.xn--)(?:[a-z0-9_]++(?:-++[a-z0-9_]++)*+\.)++[a-z][a-z0-9]*+")
MOST_UNFIT = 100  # are told; a list with more is not read on
PIECE = 1 << 20  # a copy of all of it would be the most memory that loading takes
PRIVATE = NEVER_PUBLIC | {"arpa"}  # looked at more closely
WITHOUT = " without "
LONG_LABEL = re.compile(r"[^.]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedHosts(HostPattern):
    """All hosts of a list, as one pattern: its name tells the file and, by a digest, what stood in it.

    `dropped` are those that a higher layer has replaced; the name tells them, too.
    """

    exact: HostSet = field(repr=False, compare=False)
    below: HostSet = field(repr=False, compare=False)
    wild: bool = field(repr=False, compare=False)
    dropped: frozenset[HostPattern] = frozenset()

    @property
    def file(self) -> str:
        """The name of the file; it lies beside the policy that names it."""
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
        # Of two that contain one another the wider one is enough: the same is dropped, in however many steps.
        dropped = frozenset(
            one for one in every if not any(wide in every for wide in islice(one.containing(), 1, None))
        )
        if dropped == self.dropped:
            return self
        name = f"{self.name.partition(WITHOUT)[0]}{WITHOUT}{', '.join(sorted(map(str, dropped)))}"
        return replace(self, name=name, dropped=dropped)

    def _holds_any_of(self, pattern: HostPattern) -> bool:
        """Tell whether something is written in the list that the pattern contains."""
        name = pattern.name
        at_apex = name in self.exact and pattern.reach is not Reach.BELOW
        if pattern.reach is Reach.EXACT or at_apex:
            return at_apex
        if pattern.reach is Reach.EVERY:
            return True
        return name in self.below or self.exact.any_ends_in(f".{name}") or self.below.any_ends_in(f".{name}")

    def _holds(self, pattern: HostPattern) -> bool:
        """Tell whether a host or `*.x` is written in the list, and has not been dropped."""
        if pattern.name not in (self.exact if pattern.reach is Reach.EXACT else self.below):
            return False
        return self.dropped.isdisjoint(pattern.containing())


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlisted:
    """A line of a list that is no host that can be allowed."""

    line: int
    what: str
    hint: str


def parse_file_name(text: str) -> str:
    """Return the name of a file beside the policy, or raise Unfit."""
    if not FILE_NAME.fullmatch(text):
        raise Unfit("a list of hosts is a file beside the policy", "name the file alone: `domains_file: hosts.txt`")
    return text


def parse_host_list(text: str, *, name: str) -> tuple[ListedHosts, list[Unlisted]]:
    """Return the hosts of a list, and which of its lines are none."""
    unfit: list[Unlisted] = []
    wild: list[str] = []
    exact = host_set(_names(text, wild, unfit), about=text.count("\n") + 1)
    below = host_set(wild, about=len(wild))
    listed = ListedHosts(
        reach=Reach.LISTED, name=f"{name} (sha256 {_digest(text)})", exact=exact, below=below, wild=bool(wild)
    )
    return listed, unfit


def _names(text: str, wild: list[str], unfit: list[Unlisted]) -> Iterator[str]:
    """Yield the names that stand for one host each; put wildcards and problems where they are kept."""
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
        except Unfit as error:
            number, counted = number + text.count("\n", counted, found.start()), found.start()
            unfit.append(Unlisted(line=number, what=error.what, hint=error.hint))
            if len(unfit) == MOST_UNFIT:
                return
            continue
        if pattern.reach is not Reach.EXACT:
            wild.append(pattern.name)
        if pattern.reach is not Reach.BELOW:
            yield pattern.name


def _reachable(line: str) -> HostPattern:
    pattern = parse_host_pattern(line)
    if pattern.reach is Reach.EVERY:
        raise Unfit("`*` does not go into a list of hosts", "name the hosts")
    refuse_strangers(pattern)
    why = why_private(pattern.name)
    if why is not None:
        raise Unfit(f"{pattern} {why}", "take it out: private places stand under `host_services`")
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
