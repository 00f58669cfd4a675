"""The lists of hosts that the checks use, from the data files in this directory."""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_sandbox.policy.match.host_list import ListedHosts
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach
from agent_sandbox.policyfile.text.document import parse_document


class Tenants(Struct, frozen=True, kw_only=True):
    """Suffixes below which strangers can create names."""

    what: str
    why: str
    fix: str
    suffixes: tuple[str, ...]


class Uploads(Struct, frozen=True, kw_only=True):
    """Hosts that accept data from anyone; `asked` is `writes` or `any` (method), `below` is the path that does so."""

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
    """Return the hosts of buckets.yaml by provider."""
    return {provider: tuple(hosts) for provider, hosts in _read("buckets.yaml").items()}


def may_be_listed(pattern: HostPattern) -> bool:
    """Return whether a pattern may match a host of uploads or buckets: a quick check that excludes nearly all hosts."""
    return pattern.reach is not Reach.EXACT or _listed_hosts().fullmatch(pattern.name) is not None


@cache
def _listed_hosts() -> re.Pattern[str]:
    groups = (*(group.hosts for group in uploads()), *buckets().values())
    hosts = sorted({host for group in groups for host in group})
    return re.compile("|".join(r"\.".join(map(_spelled, host.split("."))) for host in hosts))


def _spelled(label: str) -> str:
    before, star, _ = label.partition("*")
    return f"{re.escape(before)}[^.]*" if star else re.escape(label)


def tenants_below(pattern: HostPattern) -> tuple[Tenants, str] | None:
    """Return the group and the nearest suffix whose names a wildcard matches, or None."""
    if pattern.reach is Reach.EXACT:
        return None
    labels = pattern.name.split(".")
    near = [f"*.{'.'.join(labels[start:])}" for start in range(1, len(labels))]
    known = _tenants_by_end()
    found = (one for end in (pattern.name, *near) for one in known.get(end, ()) if below_suffix(pattern, one[-1]))
    return next(((group, suffix) for _, _, group, suffix in sorted(found)), None)


@cache
def _tenants_by_end() -> dict[str, list[tuple[int, int, Tenants, str]]]:
    """Return the suffixes, with a sort order, by the wildcards that match them, or by `*` and the text after a star."""
    found = defaultdict[str, list[tuple[int, int, Tenants, str]]](list)
    every = [(group, suffix) for group in tenants() for suffix in group.suffixes]
    for number, (group, suffix) in enumerate(every):
        _, star, after = suffix.rpartition("*")
        labels = (after if star else suffix).removeprefix(".").split(".")
        ends = [".".join(labels[start:]) for start in range(len(labels))]
        for end in (*ends, *([f"*.{ends[0]}"] if star else ())):
            found[end].append((suffix.count("."), number, group, suffix))
    return found


def below_suffix(pattern: HostPattern, suffix: str) -> bool:
    """Return whether a wildcard matches names of several tenants below a suffix.

    `*.github.io` and `*.amazonaws.com` do; `*.me.github.io` matches only the names of one tenant.
    """
    if pattern.reach is Reach.EXACT:
        return False
    wild, tenant = pattern.name.split("."), suffix.split(".")
    if len(wild) > len(tenant):
        return False
    return all(map(_label_matches, tenant[-len(wild) :], wild))


def wildcards_over(listed: ListedHosts, suffix: str) -> Iterator[HostPattern]:
    """Yield the wildcards of a host list that match names of several tenants below a suffix."""
    labels = suffix.split(".")
    for start in range(len(labels)):
        if name := listed.below.like(".".join(labels[start:])):
            yield HostPattern(reach=Reach.BELOW, name=name)


def host_like(pattern: HostPattern, host: str) -> str:
    """Return the host that a pattern matches of an entry in these lists, where a label can have one star; or empty."""
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
    text = Path(__file__).with_name(name).read_text("utf-8")
    value = parse_document(text, file=name).value
    return value if isinstance(value, dict) else {}
