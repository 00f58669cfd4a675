import json
from pathlib import Path

import pytest

from agent_sandbox.cli.errors import exit_code
from agent_sandbox.cli.policy.explain import explain, explained
from agent_sandbox.policyfile import load_policy, shipped_services


def test_a_denial_says_why_and_how_to_allow_it(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert policy.exists()
    assert exit_code(lambda: explain("get", "https://example.com/a?b=1#c")) == 0
    expected = (
        "deny  GET https://example.com/a?b=1\n"
        "  because: no rule allows host example.com\n"
        "  to allow: add `- example.com` under `domains` in .devcontainer/policy.yaml,"
        " then: docker compose restart proxy\n"
    )
    assert capsys.readouterr() == (expected, "")


def test_a_service_that_allows_the_request_is_advised_before_the_whole_host(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert policy.exists()
    assert exit_code(lambda: explain("GET", "https://api.github.com/repos/a/b")) == 0
    advice = "  to allow: add `- github` under `services` in .devcontainer/policy.yaml,"
    assert capsys.readouterr().out.splitlines()[-1] == f"{advice} then: docker compose restart proxy"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("GET https://example.org/", ""),
        ("POST https://example.org/admin", "a deny always wins: "),
        ("POST https://api.github.com:444/", "add `- {host: api.github.com, ports: [444]}` under `domains` "),
    ],
)
def test_no_service_is_advised_where_none_would_help(policy: Path, line: str, hint: str) -> None:
    method, _, url = line.partition(" ")
    got = explained(load_policy(policy), method, url, services=shipped_services())["hint"]
    assert got[: len(hint) or None] == hint


def test_an_allowed_request_names_the_rule(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: explain("GET", "https://example.org", policy=policy)) == 0
    expected = "allow  GET https://example.org/\n  because: allowed by policy.yaml:3\n"
    assert capsys.readouterr() == (expected, "")


def test_a_program_gets_rule_file_and_line(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: explain("POST", "https://example.org/admin", policy=policy, json=True)) == 0
    got = json.loads(capsys.readouterr().out)
    hint = got.pop("hint")
    expected = {
        "policy": ".devcontainer/policy.yaml",
        "effect": "deny",
        "method": "POST",
        "url": "https://example.org/admin",
        "rule": "policy.yaml:7",
        "file": "policy.yaml",
        "line": 7,
        "layer": "project",
        "reason": "denied by policy.yaml:7",
        "near_miss": "",
    }
    assert got == expected
    assert hint.startswith("a deny always wins: ")


def test_what_is_ambiguous_is_denied_as_the_proxy_does(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: explain("GET", "https://example.org/a/../b", policy=policy)) == 0
    expected = "deny  GET https://example.org/a/../b\n  because: ambiguous: the path holds a dot segment\n"
    assert capsys.readouterr().out == expected


def test_an_invalid_policy_explains_nothing(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("version: 1\ndomainz: [x]\n")
    assert exit_code(lambda: explain("GET", "https://example.org/")) == 1
    assert capsys.readouterr().err.startswith("error: .devcontainer/policy.yaml:2:1: unknown key 'domainz'\n")
