"""Find a policy with rules but without tests."""

from collections.abc import Iterator

from agent_sandbox.policytools.lint.subject import Finding, Subject


def no_tests(subject: Subject) -> Iterator[Finding]:
    """Find a file with rules, wildcards or denies but without `tests`."""
    spec = subject.layer.spec
    lines = [subject.layer.origin("deny", 0).line] if spec.deny else []
    lines += [line for line, entry in subject.entries if entry.rules or entry.host.reach]
    if lines and not spec.tests:
        yield Finding(
            line=min(lines),
            what="the file has rules but no `tests`",
            why="nothing would detect that a later edit allows or denies more than intended",
            fix="write down what must stay true: `tests: [{allow: GET https://...}, {deny: POST https://...}]`",
        )
