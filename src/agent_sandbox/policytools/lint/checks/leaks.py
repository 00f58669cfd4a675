"""Find hosts where data can be left for strangers: upload sites, and object stores with the bucket in the path."""

from collections.abc import Iterator

from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.match.host_pattern import Reach
from agent_sandbox.policy.match.path_pattern import PathKind, PathPattern
from agent_sandbox.policytools.lint.lists import Uploads, buckets, host_like, may_be_listed, uploads
from agent_sandbox.policytools.lint.subject import Finding, Subject

READS = frozenset({"GET", "HEAD", "OPTIONS"})


def upload_host(subject: Subject) -> Iterator[Finding]:
    """Find rules for hosts that accept uploads from anyone."""
    for rule in _near(subject):
        for group in uploads():
            host = next((host for host in group.hosts if host_like(rule.conditions.host, host)), "")
            if host and _is_asked(rule, group):
                yield Finding(
                    line=rule.origin.line,
                    what=f"{host} {group.what}",
                    why=group.why,
                    fix=_less(rule, "remove it" if group.asked == "any" else "allow only reading: `methods: [GET]`"),
                )


def upload_registry(subject: Subject) -> Iterator[Finding]:
    """Find registries of resolved services where anyone can publish what is then fetched."""
    for line, service, rule in subject.resolved:
        for group in uploads() if may_be_listed(rule.conditions.host) else ():
            if not group.below and any(host_like(rule.conditions.host, host) for host in group.hosts):
                yield Finding(
                    line=line,
                    what=f"service `{service}` fetches from {rule.conditions.host}, which {group.what}",
                    why="code that anyone publishes there runs in the sandbox, and strangers can read the requests",
                    fix=f"check the tool's configuration, and remove the host from {rule.origin}",
                )


def _near(subject: Subject) -> Iterator[Rule]:
    return (rule for rule in subject.allows if may_be_listed(rule.conditions.host))


def _less(rule: Rule, fix: str) -> str:
    """Return the fix, and that a budget limits what can be uploaded, unless there is one."""
    limited = rule.conditions.budget is not None and rule.conditions.budget.upload is not None
    return fix if limited else f"{fix}, or limit it: `budget: {{upload: 1MiB/day}}`"


def _is_asked(rule: Rule, group: Uploads) -> bool:
    methods, path = rule.conditions.methods, rule.conditions.path
    writes = group.asked == "any" or methods is None or bool(methods - READS)
    return writes and (not group.below or path is None or _may_be_below(path, group.below))


def _may_be_below(path: PathPattern, below: str) -> bool:
    """Return whether the pattern may match a path below; of a glob, only the part before the first star is compared."""
    begins = path.text.partition("*")[0] if path.kind is PathKind.GLOB else path.reading
    if path.kind is PathKind.EXACT:
        return begins == below or begins.startswith(f"{below}/")
    return begins.startswith(below) or below.startswith(begins)


def shared_store(subject: Subject) -> Iterator[Finding]:
    """Find rules for an object store without the bucket in the path. Wildcards belong to another check."""
    for rule in _near(subject):
        if rule.conditions.host.reach not in {Reach.EXACT, Reach.LISTED}:
            continue
        for provider, hosts in buckets().items():
            store = next(filter(None, (host_like(rule.conditions.host, host) for host in hosts)), "")
            if store and not _names_a_bucket(rule):
                yield Finding(
                    line=rule.origin.line,
                    what=f"{store} is for every bucket of {provider}: the path names the bucket",
                    why="the agent could upload data to a stranger's bucket, or run what a stranger put there",
                    fix="name the bucket: `path: {prefix: /my-bucket/}`",
                )


def _names_a_bucket(rule: Rule) -> bool:
    """Return whether the first segment of the path is fixed."""
    path = rule.conditions.path
    if path is None:
        return False
    first, _, rest = path.text.removeprefix("/").partition("/")
    ends = path.kind is PathKind.EXACT or bool(rest) or path.kind is PathKind.PREFIX
    return bool(first) and ends and (path.kind is not PathKind.GLOB or "*" not in first)
