import pytest

from agent_sandbox.policy import Effect, Origin
from agent_sandbox.policytools.explain.request_line import RequestLine
from agent_sandbox.policytools.explain.testing import Case, cases_of, read_cases, run_cases
from agent_sandbox.problems import UserError
from policy_texts import LayerOf, PolicyOf
from table_tests import each

POLICY = """
domains: [a.test]
tests:
  - allow: GET https://a.test/
  - deny: POST https://b.test/
    headers: {Accept: x}
    body_size: 1KiB
    reason: not ours
"""


def test_reads_the_cases_of_a_policy_with_their_lines(layer_of: LayerOf) -> None:
    first, second = cases_of(layer_of(POLICY))
    assert first == Case(
        origin=Origin(file="policy.yaml", line=4, layer="project"),
        expected=Effect.ALLOW,
        line=RequestLine(method="GET", url="https://a.test/"),
    )
    assert (second.origin.line, second.expected, second.reason) == (5, Effect.DENY, "not ours")
    assert second.line == RequestLine(method="POST", url="https://b.test/", headers=(("accept", "x"),), body_size=1024)


def test_reads_cases_from_a_file() -> None:
    (case,) = read_cases("# what has to work\n- {allow: GET https://a.test/, reason: x}\n", file="cases.yaml")
    assert (str(case.origin), case.expected, str(case.line)) == ("cases.yaml:2", Effect.ALLOW, "GET https://a.test/")


@each(
    ("text", "told"),
    [
        ("- allow: GTE\n- x", "c:1:10: not `METHOD URL`: 'GTE'; write a method and a whole address: "),
        (
            "- allow: GET https://a.test/\n  deny: GET https://b.test/",
            "c:1:3: a test needs exactly one of `allow` and `deny`; ",
        ),
        ("- alow: GET https://a.test/", "c:1:3: unknown key 'alow'; did you mean `allow`?"),
        ("tests: []", "c:1:1: list expected, not a mapping"),
        ("- [", "c:2:1: invalid YAML: "),
    ],
)
def test_rejects_an_invalid_list_of_cases_with_its_line(text: str, told: str) -> None:
    with pytest.raises(UserError) as raised:
        read_cases(text, file="c")
    assert str(raised.value)[: len(told)] == told


def test_lists_nearest_rules_only_for_failed_cases(policy_of: PolicyOf) -> None:
    cases = read_cases("- deny: GET https://b.a.test/\n- allow: GET https://b.a.test/x", file="c")
    held, failed = run_cases(policy_of(POLICY), cases)
    assert [(one.came.reason, bool(one.came.misses)) for one in (held, failed)] == [
        ("no rule allows host b.a.test", False),
        ("no rule allows host b.a.test", True),
    ]


def test_runs_every_case(policy_of: PolicyOf) -> None:
    cases = read_cases(
        "- allow: GET https://a.test/\n- allow: GET https://b.test/\n- deny: GET https://a.test/..", file="c"
    )
    outcomes = run_cases(policy_of(POLICY), cases)
    assert [outcome.passed for outcome in outcomes] == [True, False, True]
    assert outcomes[1].came.reason == "no rule allows host b.test"


def test_rejects_contradictory_cases_for_the_same_request_in_any_spelling(policy_of: PolicyOf) -> None:
    text = """\
- allow: GET https://a.test/x
- deny: GET https://A.test/%78
- deny: GET https://a.test/x?y
- allow: GET https://a.test/../x
- deny: GET https://a.test/../x
- allow: GET https://a.test/x
"""
    with pytest.raises(UserError) as raised:
        run_cases(policy_of(POLICY), read_cases(text, file="c"))
    hint = "keep one of the two"
    assert str(raised.value).splitlines() == [
        f"c:2: GET https://A.test/%78 should be denied here, but allowed at c:1; {hint}",
        f"c:5: GET https://a.test/../x should be denied here, but allowed at c:4; {hint}",
    ]
