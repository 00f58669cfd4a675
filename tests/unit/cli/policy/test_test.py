import json
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.policy import test as command

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


def test_a_failure_shows_what_was_expected_what_came_and_why(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text(TESTED)
    Path("more.yaml").write_text("- allow: GET https://other.example/\n")
    assert exit_code(lambda: command.test(cases=Path("more.yaml"))) == 1
    assert capsys.readouterr() == (FAILED, "")


def test_cases_that_hold_are_counted(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text(TESTED.replace("  - {deny", "  - {allow"))
    assert exit_code(lambda: command.test(policy)) == 0
    assert capsys.readouterr() == (".devcontainer/policy.yaml: 2 of 2 cases hold\n", "")


def test_one_case_is_one(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("domains: [a.test]\ntests: [allow: GET https://a.test/]\n")
    assert exit_code(lambda: command.test(policy)) == 0
    assert capsys.readouterr().out == ".devcontainer/policy.yaml: 1 of 1 case holds\n"


def test_no_cases_are_fine_and_said(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: command.test(policy=policy)) == 0
    assert capsys.readouterr() == (".devcontainer/policy.yaml: no cases\n", f"{command.NONE}\n")


def test_a_program_gets_every_case(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_cases_that_cannot_be_read_are_problems(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text(TESTED)
    Path("more.yaml").write_text("- nonsense\n")
    assert exit_code(lambda: command.test(cases=Path("more.yaml"))) == 1
    assert capsys.readouterr().err == (
        "error: more.yaml:1:3: entry expected, not 'nonsense'\n  hint: write `- allow: GET https://example.com/`\n"
    )
