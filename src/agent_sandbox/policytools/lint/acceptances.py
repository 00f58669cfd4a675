"""`# accepted: CHECK, why`: a person's word that a finding is meant."""

from collections.abc import Collection, Iterator

from agent_sandbox.policytools.lint.finding import Finding
from agent_sandbox.policytools.lint.subject import ACCEPTED, Subject


def is_accepted(subject: Subject, check: str, line: int) -> bool:
    """Tell whether a comment on the line, or above it, accepts what the check finds there, and says why."""
    found = [ACCEPTED.fullmatch(text) for text in subject.remarks(line)]
    return any(one is not None and one["check"] == check and one["why"] for one in found)


def bad_acceptance(subject: Subject, known: Collection[str]) -> Iterator[Finding]:
    """Find acceptances of a check that there is not, or without a reason."""
    for line, comment in subject.comments.items():
        found = ACCEPTED.fullmatch(comment.text)
        if found and not (found["check"] in known and found["why"]):
            wrong = "says not why" if found["check"] in known else f"names no check: {found['check']!a}"
            yield Finding(
                line=line,
                what=f"this `accepted` {wrong}",
                why="it accepts nothing",
                mend=f"write `# accepted: CHECK, WHY`; checks are {', '.join(known)}",
            )
