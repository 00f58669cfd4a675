import json
import os
import sys
from pathlib import Path

import pytest

from agent_sandbox.features.trust.prompt import unseen_in
from agent_sandbox.project.trust_store import open_store
from fake_tty import Person
from run_cli import Ask

POLICY = ".devcontainer/policy.yaml"


@pytest.fixture
def wider(project: Path) -> Path:
    """Change to a project whose policy was widened after the user trusted it."""
    policy = project / POLICY
    policy.write_text(policy.read_text().replace("[example.org]", "[example.org, example.net]"))
    return project


def test_shows_what_changed_asks_and_records_trust(wider: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Person("y\n"))
    answer = ask("trust")
    *shown, last = answer.err.splitlines()
    assert (answer.code, answer.out, unseen_in(wider, os.environ)) == (0, "", ())
    assert shown[0] == f"--- a/{POLICY}"
    assert shown[-4:-1] == [
        "",
        f"{wider} asks for more than you trust:",
        "  also reaches  any method example.net",
    ]
    fingerprint = shown[-1].removeprefix("fingerprint ")
    assert last == f"Trust this? [y/N] {wider} is trusted, fingerprint {fingerprint}"
    assert ask("trust").err == f"{wider} is trusted, fingerprint {fingerprint}\n"


def test_json_output_has_the_fingerprint_and_records_no_trust(wider: Path, ask: Ask) -> None:
    said = json.loads(ask("trust", "--json").out)
    assert said == {
        "project": str(wider),
        "fingerprint": said["fingerprint"],
        "trusted": False,
        "changed": [POLICY],
        "reaches": ["any method example.net"],
        "sets": [],
        "mounts": [],
        "injects": [],
        "editor": [],
        "notes": [],
        "differences": [
            f"--- a/{POLICY}",
            f"+++ b/{POLICY}",
            "@@ -1,3 +1,3 @@",
            *(f" {line}" for line in (wider / POLICY).read_text().splitlines()[:2]),
            "-domains: [example.org]",
            "+domains: [example.org, example.net]",
        ],
    }
    assert unseen_in(wider, os.environ) == (POLICY,)
    assert ask("trust", "--yes", said["fingerprint"]).code == 0
    assert json.loads(ask("trust", "--json").out)["trusted"] is True


def test_rejects_a_fingerprint_that_does_not_match(wider: Path, ask: Ask) -> None:
    answer = ask("trust", "--yes", "0123")
    assert (answer.code, unseen_in(wider, os.environ)) == (1, (POLICY,))
    assert "error: " + f"{wider}: fingerprint mismatch: the settings are not those of 0123" in answer.err


def test_trusting_a_narrower_policy_does_not_trust_the_wider_policy(project: Path, ask: Ask) -> None:
    before = (project / POLICY).read_text()
    (project / POLICY).write_text("version: 1\n")
    assert ask("trust").code == 0
    (project / POLICY).write_text(before)
    assert unseen_in(project, os.environ) == (POLICY,)


def test_revoke_removes_trust(project: Path, ask: Ask) -> None:
    answer = ask("trust", "--revoke")
    said = f"{project} is no longer trusted; its stack keeps running until agent-sandbox down\n"
    assert (answer.code, answer.err) == (0, said)
    answer = ask("trust", "--revoke", "--path", str(project))
    expected = (
        f"error: {project}: this is not trusted\n  hint: agent-sandbox trust --list prints the trusted directories\n"
    )
    assert (answer.code, answer.err) == (1, expected)


def test_list_prints_the_trusted_directories(project: Path, ask: Ask) -> None:
    assert ask("trust", "--list").out == f"{project}\n"
    assert json.loads(ask("trust", "--list", "--json").out) == [str(project)]
    open_store(os.environ).forget(project)
    assert ask("trust", "--list").out == ""
