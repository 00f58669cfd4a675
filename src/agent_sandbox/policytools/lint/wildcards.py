"""Wildcards: over names that strangers create, and without a word on why."""

from collections.abc import Iterator

from agent_sandbox.policy.match.host_pattern import Reach
from agent_sandbox.policytools.lint.finding import Finding
from agent_sandbox.policytools.lint.lists import tenants, tenants_below, wildcards_over
from agent_sandbox.policytools.lint.subject import Subject


def allow_all(subject: Subject) -> Iterator[Finding]:
    """Find a file that may allow every host."""
    if subject.layer.spec.allow_all:
        yield Finding(
            line=subject.layer.origin("allow_all").line,
            what="`allow_all` lets this file allow every host of the internet",
            why="whatever the agent holds can be sent to anybody",
            mend="take it out and name the hosts; `agent-sandbox policy suggest` says which were asked for",
        )


def tenant_wildcard(subject: Subject) -> Iterator[Finding]:
    """Find wildcards below which anybody can create a name; of those in a list one of each kind is told."""
    written = [(line, entry.host) for line, entry in subject.entries]
    every = tuple(suffix for group in tenants() for suffix in group.suffixes)
    listed = {
        (line, host) for line, hosts in subject.listed for suffix in every for host in wildcards_over(hosts, suffix)
    }
    for line, host in (*written, *sorted(listed)):
        if found := tenants_below(host):
            group, suffix = found
            below = f" below {suffix}" if suffix.count(".") > host.name.count(".") else ""
            what = f"`{host}` takes in {group.what}{below}"
            yield Finding(line=line, what=what, why=group.why, mend=group.mend)


def unexplained_wildcard(subject: Subject) -> Iterator[Finding]:
    """Find wildcards that nothing justifies: no `reason`, no comment on the line or directly above it."""
    for line, entry in subject.entries:
        explained = entry.reason or any(rule.reason for rule in entry.rules) or subject.remarks(line)
        # Over strangers' names no word is enough: the check above speaks of those.
        if entry.host.reach is not Reach.EXACT and not explained and not tenants_below(entry.host):
            yield Finding(
                line=line,
                what=f"nothing says why `{entry.host}` has to be a wildcard",
                why="every name below it is allowed, those that are made tomorrow too",
                mend="name the hosts, or say why in a comment on the line or above it, or in `reason`",
            )
    for line, listed in subject.listed:
        if listed.wild and not subject.remarks(line):
            yield Finding(
                line=line,
                what=f"nothing says why the list has to have wildcards: {len(listed.below)} of them",
                why="every name below one is allowed, those that are made tomorrow too",
                mend="list the hosts, or say why in a comment on the line or above it",
            )
