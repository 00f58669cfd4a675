import pytest

from agent_sandbox.policytools import usage as subject
from agent_sandbox.policytools.usage import Asked, Usage
from policy_texts import PolicyOf
from table_tests import each

POLICY = """\
domains:
  - a.test
  - {host: b.test, rules: [{path: {prefix: /v1}, query: {exact: {q: x}}}]}
  - {host: c.test, inspect: false}
allow: [GET https://d.test/**, GET https://e.test/x]
deny: [never.test]
"""


def asked(rule: str, **more: object) -> Asked:
    usual = {"effect": "allow", "scheme": "https", "host": "a.test", "port": 443, "method": "GET", "path": "/"}
    return Asked(rule=rule, **(usual | more))  # type: ignore[arg-type] # a test writes any of them


def counts(usage: Usage) -> dict[int, tuple[int, int]]:
    return {line.origin.line: (line.allowed, line.denied) for line in usage.lines() if line.allowed or line.denied}


@each(
    ("what", "request", "expected"),
    [
        ("the line that decided", asked("policy.yaml:2"), {2: (1, 0)}),
        ("a deny", asked("policy.yaml:6", effect="deny", host="never.test"), {6: (0, 1)}),
        ("a query, which the log does not have", asked("policy.yaml:3", host="b.test", path="/v1/a"), {3: (1, 0)}),
        ("a line that has moved", asked("policy.yaml:9"), {2: (1, 0)}),
        ("a line that is another rule now", asked("policy.yaml:3"), {2: (1, 0)}),
        ("what is not allowed any more", asked("policy.yaml:3", host="gone.test"), {}),
        ("what no rule decided", asked("", effect="deny", host="gone.test"), {}),
        ("what was denied and is allowed now", asked("", effect="deny"), {}),
        (
            "a connection that is not inspected",
            asked("policy.yaml:4", host="c.test", scheme="", method="", path=""),
            {4: (1, 0)},
        ),
        ("one without a port", asked("policy.yaml:4", host="c.test", port=None), {4: (1, 0)}),
        ("one to another port", asked("policy.yaml:4", host="c.test", port=22, method=""), {}),
        ("a grant", asked("grant:1", host="new.test"), {}),
        ("an ambiguous request", asked("policy.yaml:9", path="/%zz"), {}),
    ],
)
def test_counts_a_request_for_the_line_that_decides_it(
    policy_of: PolicyOf, what: str, request: Asked, expected: dict[int, tuple[int, int]]
) -> None:
    usage = Usage(policy_of(POLICY))
    usage.add(request)
    assert counts(usage) == expected, what


def test_lists_every_line_with_a_rule(policy_of: PolicyOf) -> None:
    usage = Usage(policy_of(POLICY))
    for _ in range(3):
        usage.add(asked("policy.yaml:5", host="e.test", path="/x"))
    lines = usage.lines()
    assert [(line.origin.line, line.allowed) for line in lines] == [(2, 0), (3, 0), (4, 0), (5, 3), (6, 0)]
    assert lines[3].rules == ["GET, HEAD https://d.test/**", "GET, HEAD https://e.test/x"]


def test_limits_the_number_of_different_requests_in_memory(
    policy_of: PolicyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "MOST", 2)
    usage = Usage(policy_of(POLICY))
    for number in range(5):
        usage.add(asked("policy.yaml:2", path=f"/{number}"))
    assert len(usage._known) == 2
    assert counts(usage) == {2: (5, 0)}
