"""Find wildcards that match names of strangers, and wildcards without a reason."""

from collections.abc import Iterator

from agent_sandbox.counted import counted
from agent_sandbox.policy.match.host_pattern import Reach
from agent_sandbox.policytools.lint.lists import tenants, tenants_below, wildcards_over
from agent_sandbox.policytools.lint.subject import Finding, Subject


def allow_all(subject: Subject) -> Iterator[Finding]:
    """Find a file that can allow every host."""
    if subject.layer.spec.allow_all:
        yield Finding(
            line=subject.layer.origin("allow_all").line,
            what="with `allow_all`, this file can allow every host on the internet",
            why="the agent could send any data to anyone",
            fix="remove it and name the hosts; `agent-sandbox policy suggest` lists those that were requested",
        )


def tenant_wildcard(subject: Subject) -> Iterator[Finding]:
    """Find wildcards below which anyone can create a name; of those in a host list, report one of each kind."""
    written = [(line, entry.host) for line, entry in subject.entries]
    every = tuple(suffix for group in tenants() for suffix in group.suffixes)
    listed = {
        (line, host) for line, hosts in subject.listed for suffix in every for host in wildcards_over(hosts, suffix)
    }
    for line, host in (*written, *sorted(listed)):
        if found := tenants_below(host):
            group, suffix = found
            below = f" below {suffix}" if suffix.count(".") > host.name.count(".") else ""
            what = f"`{host}` matches {group.what}{below}"
            yield Finding(line=line, what=what, why=group.why, fix=group.fix)


def unexplained_wildcard(subject: Subject) -> Iterator[Finding]:
    """Find wildcards without a `reason` and without a comment on the line or directly above it."""
    for line, entry in subject.entries:
        explained = entry.reason or any(rule.reason for rule in entry.rules) or subject.remarks(line)
        # For names of strangers no reason is enough: the check above reports those.
        if entry.host.reach is not Reach.EXACT and not explained and not tenants_below(entry.host):
            yield Finding(
                line=line,
                what=f"no reason why `{entry.host}` has to be a wildcard",
                why="every name below it is allowed, including future ones",
                fix="name the hosts, or say why in a comment on the line or above it, or in `reason`",
            )
    for line, listed in subject.listed:
        if listed.wild and not subject.remarks(line):
            yield Finding(
                line=line,
                what=f"the host list has {counted(len(listed.below), 'wildcard')} without a reason",
                why="every name below a wildcard is allowed, including future ones",
                fix="list the hosts, or say why in a comment on the line or above it",
            )
