"""A policy that says more than a list of hosts, and no test that holds it."""

from collections.abc import Iterator

from agent_sandbox.policytools.lint.finding import Finding
from agent_sandbox.policytools.lint.subject import Subject


def no_tests(subject: Subject) -> Iterator[Finding]:
    """Find a file with rules, wildcards or denies and without `tests`."""
    spec = subject.layer.spec
    said = [subject.layer.origin("deny", 0).line] if spec.deny else []
    said += [line for line, entry in subject.entries if entry.rules or entry.host.reach]
    if said and not spec.tests:
        yield Finding(
            line=min(said),
            what="the file has rules and no `tests`",
            why="a later edit can open or close more than was meant, and nothing tells",
            mend="write down what has to stay so: `tests: [{allow: GET https://...}, {deny: POST https://...}]`",
        )
