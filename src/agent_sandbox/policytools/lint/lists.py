"""The lists of names that the checks know: data files beside this module."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from agent_sandbox.policy.hostlist import ListedHosts
from agent_sandbox.policy.hostpattern import HostPattern, Reach
from agent_sandbox.policyfile.document import parse_document


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenants:
    """Suffixes below which strangers create names."""

    what: str
    why: str
    mend: str
    suffixes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploads:
    """Hosts that take something from anybody; `asked` is `writes` or `any`, `below` the path where it happens."""

    what: str
    why: str
    asked: str
    hosts: tuple[str, ...]
    below: str = ""


@cache
def tenants() -> tuple[Tenants, ...]:
    """Return the groups of tenants.yaml."""
    return tuple(Tenants(**group) for group in _groups("tenants.yaml"))


@cache
def uploads() -> tuple[Uploads, ...]:
    """Return the groups of uploads.yaml."""
    return tuple(Uploads(**group) for group in _groups("uploads.yaml"))


@cache
def buckets() -> dict[str, tuple[str, ...]]:
    """Return the hosts of buckets.yaml by their provider."""
    return {provider: tuple(hosts) for provider, hosts in _read("buckets.yaml").items()}


def below_suffix(pattern: HostPattern, suffix: str) -> bool:
    """Tell whether a wildcard takes in names of several tenants below a suffix.

    `*.github.io` and `*.amazonaws.com` do; `*.me.github.io` holds the names of one tenant alone.
    """
    if pattern.reach is Reach.EXACT:
        return False
    wild, tenant = pattern.name.split("."), suffix.split(".")
    if len(wild) > len(tenant):
        return False
    return all(map(_label_matches, tenant[-len(wild) :], wild))


def wildcards_over(listed: ListedHosts, suffix: str) -> Iterator[HostPattern]:
    """Yield wildcards of a list of hosts that take in names of several tenants below a suffix."""
    labels = suffix.split(".")
    for start in range(len(labels)):
        if name := listed.below.like(".".join(labels[start:])):
            yield HostPattern(reach=Reach.BELOW, name=name)


def host_like(pattern: HostPattern, host: str) -> str:
    """Return what a pattern takes in of a host of these lists, in which a label may hold one star."""
    if isinstance(pattern, ListedHosts) and "*" in host:
        return pattern.exact.like(host)
    if pattern.reach is not Reach.EXACT or "*" not in host:
        return host if pattern.matches(host) else ""
    labels, listed = pattern.name.split("."), host.split(".")
    same = len(labels) == len(listed) and all(map(_label_matches, listed, labels))
    return pattern.name if same else ""


def _label_matches(listed: str, label: str) -> bool:
    before, star, after = listed.partition("*")
    return (label.startswith(before) and label.endswith(after)) if star else label == listed


def _groups(name: str) -> Iterator[dict[str, Any]]:
    for group in _read(name).values():
        yield {key: tuple(value) if isinstance(value, list) else value for key, value in group.items()}


def _read(name: str) -> dict[str, Any]:
    text = files(__package__).joinpath(name).read_text("utf-8")
    value = parse_document(text, file=name).value
    return value if isinstance(value, dict) else {}
