"""Comments that accept a finding: `# accepted: CHECK, WHY`."""

from collections.abc import Collection, Iterator

from agent_sandbox.policytools.lint.subject import ACCEPTED, Finding, Subject


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
