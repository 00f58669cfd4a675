"""The table of checks, the function that runs them, and comments that accept a finding: `# accepted: CHECK, WHY`."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec import Struct

from agent_sandbox.policytools.lint.checks.adding import adds_up
from agent_sandbox.policytools.lint.checks.idle import covered, half_denied, hidden_by_deny, never_matches
from agent_sandbox.policytools.lint.checks.leaks import shared_store, upload_host, upload_registry
from agent_sandbox.policytools.lint.checks.queries import encoded_query, route_template
from agent_sandbox.policytools.lint.checks.secrets import optional_secret, wide_secret
from agent_sandbox.policytools.lint.checks.services import any_repository, unused_service
from agent_sandbox.policytools.lint.checks.unread import mcp_anywhere, plain_http, uninspected, unlisted_graphql
from agent_sandbox.policytools.lint.checks.untested import no_tests
from agent_sandbox.policytools.lint.checks.wildcards import allow_all, tenant_wildcard, unexplained_wildcard
from agent_sandbox.policytools.lint.subject import ACCEPTED, Finding, Subject

type Check = Callable[[Subject], Iterable[Finding]]

CHECKS: Mapping[str, Check] = {
    "allow-all": allow_all,
    "tenant-wildcard": tenant_wildcard,
    "unexplained-wildcard": unexplained_wildcard,
    "upload-host": upload_host,
    "upload-registry": upload_registry,
    "any-repository": any_repository,
    "shared-store": shared_store,
    "plain-http": plain_http,
    "uninspected": uninspected,
    "unlisted-graphql": unlisted_graphql,
    "mcp-anywhere": mcp_anywhere,
    "wide-secret": wide_secret,
    "optional-secret": optional_secret,
    "adds-up": adds_up,
    "encoded-query": encoded_query,
    "route-template": route_template,
    "half-denied": half_denied,
    "never-matches": never_matches,
    "hidden-by-deny": hidden_by_deny,
    "covered": covered,
    "unused-service": unused_service,
    "no-tests": no_tests,
    "bad-acceptance": lambda subject: bad_acceptance(subject, CHECKS),
}
# Checks for entries that do not mean what they seem to.
MISREAD = ("adds-up", "encoded-query", "hidden-by-deny")


class Found(Struct, frozen=True, kw_only=True):
    """A finding and the name of its check."""

    check: str
    finding: Finding

    def as_json(self) -> dict[str, str | int]:
        """Return it as JSON; its remedy is called `mend` there."""
        one = self.finding
        return {"check": self.check, "line": one.line, "what": one.what, "why": one.why, "mend": one.fix}


def lint(subject: Subject, checks: Collection[str] = CHECKS.keys()) -> tuple[Found, ...]:
    """Return the findings of these checks that are not accepted, by line."""
    found = {
        Found(check=name, finding=finding)
        for name in checks
        for finding in CHECKS[name](subject)
        if not is_accepted(subject, name, finding.line)
    }
    return tuple(sorted(found, key=lambda one: (one.finding.line, one.check, one.finding.what)))


def is_accepted(subject: Subject, check: str, line: int) -> bool:
    """Return whether a comment on the line or above it accepts the check's finding and says why."""
    found = [ACCEPTED.fullmatch(text) for text in subject.remarks(line)]
    return any(one is not None and one["check"] == check and one["why"] for one in found)


def bad_acceptance(subject: Subject, known: Collection[str]) -> Iterator[Finding]:
    """Find acceptances of an unknown check, or without a reason."""
    for line, comment in subject.comments.items():
        found = ACCEPTED.fullmatch(comment.text)
        if found and not (found["check"] in known and found["why"]):
            wrong = "has no reason" if found["check"] in known else f"names an unknown check, {found['check']!a}"
            yield Finding(
                line=line,
                what=f"this `accepted` {wrong}",
                why="it has no effect",
                fix=f"write `# accepted: CHECK, WHY`; checks are {', '.join(known)}",
            )
