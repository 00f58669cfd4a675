import json
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.policy.commands.lint import lint
from agent_sandbox.policytools.lint.table import CHECKS

WHY = "anyone on the network path can read the requests and forge the responses"
MEND = "use https; if the host has none, accept the finding: `# accepted: plain-http, WHY`"


def test_prints_each_finding_with_line_reason_and_fix(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("allow:\n  - GET http://a.test/\ntests: [{allow: GET http://a.test/}]\n")
    assert exit_code(lint) == 1
    expected = (
        ".devcontainer/policy.yaml:2: plain-http: a.test is allowed over plain http\n"
        f"  why   {WHY}\n"
        f"  fix   {MEND}\n"
        "1 finding; to accept one, write a comment above its line: # accepted: CHECK, WHY\n"
    )
    assert capsys.readouterr() == (expected, "")


def test_json_output_has_the_same_finding(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("allow:\n  - GET http://a.test/\ntests: [{allow: GET http://a.test/}]\n")
    assert exit_code(lambda: lint(policy, json=True)) == 1
    what = "a.test is allowed over plain http"
    finding = {"check": "plain-http", "file": str(policy), "line": 2, "what": what, "why": WHY, "mend": MEND}
    assert json.loads(capsys.readouterr().out) == {"file": str(policy), "findings": [finding]}


def test_prints_one_line_and_exits_with_0_without_findings(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("domains:\n  - a.example\n")
    assert exit_code(lambda: lint(policy=policy)) == 0
    assert capsys.readouterr().out == f".devcontainer/policy.yaml: nothing found by {len(CHECKS)} checks\n"


def test_reports_the_problem_of_an_invalid_policy_instead_of_findings(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text("domainz: []\n")
    assert exit_code(lint) == 1
    assert capsys.readouterr().err.startswith("error: .devcontainer/policy.yaml:1:1: unknown key 'domainz'\n")
