"""Host patterns: `x`, `*.x` (below x), `.x` (x and below), or an address.

`*` matches every name, but no address. Only `host_services` can name a network.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address, ip_network
from typing import override

from agent_sandbox.policy.errors import Ambiguous, InvalidValue
from agent_sandbox.policy.http.addresses import is_liftable
from agent_sandbox.policy.http.host import canonical_host, is_address
from agent_sandbox.policy.match.ssh_address import require_no_ssh
from agent_sandbox.policy.text import safe_repr

HOST_CHARACTERS = re.compile(r"[\w.:\[\]-]*")


class Reach(StrEnum):
    """Which hosts a pattern with this name matches."""

    EXACT = ""
    BELOW = "*."
    APEX_AND_BELOW = "."
    EVERY = "*"
    NETWORK = "network"
    LISTED = "listed"  # a host list: `ListedHosts`


NAMED_WHOLE = frozenset({Reach.NETWORK, Reach.LISTED})


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class HostPattern:
    """A set of hosts.

    >>> print(parse_host_pattern("*.Example.com"))
    *.example.com
    """

    reach: Reach
    name: str

    @override
    def __str__(self) -> str:
        return self.name if self.reach in NAMED_WHOLE else f"{self.reach}{self.name}"

    @property
    def sample(self) -> str:
        """An example of a host that matches."""
        return {Reach.BELOW: f"x.{self.name}", Reach.EVERY: "x.example"}.get(self.reach, self.name)

    def matches(self, host: str) -> bool:
        """Return whether a canonical host matches; the index gives the same answer faster."""
        if self.reach is Reach.NETWORK:
            return is_address(host) and is_liftable(host) and ip_address(host) in ip_network(self.name)
        if self.reach is Reach.EVERY:
            return not is_address(host)
        below = host.endswith(f".{self.name}")
        return {
            Reach.EXACT: host == self.name,
            Reach.BELOW: below,
            Reach.APEX_AND_BELOW: below or host == self.name,
        }[self.reach]

    def containing(self) -> Iterator["HostPattern"]:
        """Yield every pattern that contains all hosts of this one, itself first.

        >>> [str(one) for one in parse_host_pattern("*.a.test").containing()]
        ['*.a.test', '.a.test', '*.test', '.test', '*']
        """
        yield self
        if self.reach in NAMED_WHOLE or self.reach is Reach.EVERY or is_address(self.name):
            return
        if self.reach is not Reach.APEX_AND_BELOW:
            yield HostPattern(reach=Reach.APEX_AND_BELOW, name=self.name)
        _, _, parent = self.name.partition(".")
        while parent:
            yield HostPattern(reach=Reach.BELOW, name=parent)
            yield HostPattern(reach=Reach.APEX_AND_BELOW, name=parent)
            _, _, parent = parent.partition(".")
        yield EVERY


EVERY = HostPattern(reach=Reach.EVERY, name="")


def parse_host_pattern(text: str) -> HostPattern:
    """Return the pattern, or raise InvalidValue."""
    if text == Reach.EVERY:
        return EVERY
    reach = next(reach for reach in (Reach.BELOW, Reach.APEX_AND_BELOW, Reach.EXACT) if text.startswith(reach))
    name = text[len(reach) :]
    _require_host(text, name)
    try:
        name = canonical_host(name)
    except Ambiguous as doubt:
        raise InvalidValue(str(doubt), "write one host: a name such as `example.com`, or an address") from doubt
    if reach is not Reach.EXACT and is_address(name):
        raise InvalidValue(f"`{text}` is a wildcard with an address", "name each address")
    return HostPattern(reach=reach, name=name)


def _require_host(text: str, name: str) -> None:
    require_no_ssh(text)
    shown = safe_repr(text)
    if "://" in text:
        raise InvalidValue(f"{shown} is a URL, not a host", "write only the host; paths go under `rules`")
    if "/" in text:
        hint = "write only the host; paths go under `rules`, networks under `host_services`"
        raise InvalidValue(f"{shown} has a path", hint)
    if "*" in name:
        raise InvalidValue(
            f"{shown} has a `*` that is not its whole first label", "write a wildcard as `*.example.com`"
        )
    if not HOST_CHARACTERS.fullmatch(name):
        raise InvalidValue(
            f"{shown} has characters that are not allowed in a host", "write one host, such as `example.com`"
        )
    if ":" in name and not name.startswith("["):
        raise InvalidValue(f"{shown} is more than a host", "ports go under `ports`; write IPv6 as `[2001:db8::1]`")
