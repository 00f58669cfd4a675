import json
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.policy.commands import test as command

TESTED = """\
domains: [a.test]
tests:
  - allow: GET https://a.test/
  - {deny: PUT https://a.test/, reason: nothing is published}
"""
FAILED = """\
.devcontainer/policy.yaml:4: PUT https://a.test/
- deny  nothing is published
+ allow
  rule      policy.yaml:1 (project) allows any method a.test

more.yaml:1: GET https://other.example/
- allow
+ deny
  because   no rule allows host other.example

.devcontainer/policy.yaml: 1 of 3 cases hold
"""


def test_shows_expected_decision_actual_decision_and_reason_of_a_failed_case(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text(TESTED)
    Path("more.yaml").write_text("- allow: GET https://other.example/\n")
    assert exit_code(lambda: command.test(cases=Path("more.yaml"))) == 1
    assert capsys.readouterr() == (FAILED, "")


def test_counts_the_cases_that_hold(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text(TESTED.replace("  - {deny", "  - {allow"))
    assert exit_code(lambda: command.test(policy)) == 0
    assert capsys.readouterr() == (".devcontainer/policy.yaml: 2 of 2 cases hold\n", "")


def test_counts_one_case_in_the_singular(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("domains: [a.test]\ntests: [allow: GET https://a.test/]\n")
    assert exit_code(lambda: command.test(policy)) == 0
    assert capsys.readouterr().out == ".devcontainer/policy.yaml: 1 of 1 case holds\n"


def test_a_policy_without_cases_succeeds_with_a_note(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: command.test(policy=policy)) == 0
    assert capsys.readouterr() == (".devcontainer/policy.yaml: no cases\n", f"{command.NONE}\n")


def test_json_output_lists_cases_with_expected_and_actual_decision(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text(TESTED)
    assert exit_code(lambda: command.test(json=True)) == 1
    got = json.loads(capsys.readouterr().out)
    assert [got[key] for key in ("policy", "passed", "failed")] == [str(policy), 1, 1]
    assert got["cases"][1] == {
        "file": str(policy),
        "line": 4,
        "method": "PUT",
        "url": "https://a.test/",
        "expected": "deny",
        "came": "allow",
        "passed": False,
        "rule": "policy.yaml:1",
        "because": "allowed by policy.yaml:1",
        "reason": "nothing is published",
    }


def test_reports_a_problem_in_the_file_of_cases(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text(TESTED)
    Path("more.yaml").write_text("- nonsense\n")
    assert exit_code(lambda: command.test(cases=Path("more.yaml"))) == 1
    assert capsys.readouterr().err == (
        "error: more.yaml:1:3: entry expected, not 'nonsense'\n  hint: write `- allow: GET https://example.com/`\n"
    )
