"""Requests that others read on the way, or that the proxy does not."""

from collections.abc import Iterator

from agent_sandbox.policytools.lint.finding import Finding
from agent_sandbox.policytools.lint.subject import Subject


def plain_http(subject: Subject) -> Iterator[Finding]:
    """Find rules that ask for http by name; an entry that says nothing of schemes merely does not forbid it."""
    for rule in subject.allows:
        schemes = rule.conditions.schemes
        if schemes is not None and "http" in schemes:
            yield Finding(
                line=rule.origin.line,
                what=f"{rule.conditions.host} is asked over plain http",
                why="whoever sits on the way reads what is sent, and answers in the host's name",
                mend="write https; where the host has none, say so: `# accepted: plain-http, WHY`",
            )


def uninspected(subject: Subject) -> Iterator[Finding]:
    """Find hosts that TLS goes to unopened, with nothing that says why."""
    for number, entry in enumerate(subject.layer.spec.domains):
        line = subject.layer.origin("domains", number).line
        if entry.inspect is False and not (entry.reason or subject.remarks(line)):
            yield Finding(
                line=line,
                what=f"what is said to {entry.host} is not looked at (`inspect: false`)",
                why="whatever the agent holds can be sent there, and no line of the log tells what it was",
                mend="take `inspect: false` out, or say why it is needed in a comment or in `reason`",
            )


def unlisted_graphql(subject: Subject) -> Iterator[Finding]:
    """Find rules that let all of a GraphQL API through by its one address; elsewhere an address says little of it."""
    for rule in subject.allows:
        asked = rule.conditions
        is_its_address = asked.path is not None and asked.path.text.rpartition("/")[2].lower() == "graphql"
        if is_its_address and asked.graphql is None and asked.methods is not None and "POST" in asked.methods:
            yield Finding(
                line=rule.origin.line,
                what=f"{asked.host}{asked.path} is all of GraphQL there: reading and deleting are the same request",
                why="what an operation does stands in its body, which is not looked at",
                mend="list what may be asked for: `graphql: {query: [viewer]}`",
            )
