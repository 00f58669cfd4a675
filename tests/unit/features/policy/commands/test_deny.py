from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.policy.commands.deny import deny

WHERE = ".devcontainer/policy.yaml"


def test_adds_hosts_urls_and_requests_under_deny(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = policy.read_text()
    assert exit_code(lambda: deny("*.evil.test")) == 0
    assert exit_code(lambda: deny("post", "https://example.org/a", path=Path())) == 0
    assert exit_code(lambda: deny("https://example.org/b")) == 0
    assert policy.read_text() == (
        f'{before}  - "*.evil.test"\n  - POST https://example.org/a\n  - https://example.org/b\n'
    )
    assert capsys.readouterr().out == (
        f'{WHERE}:8: added `- "*.evil.test"` under `deny`\n'
        f"{WHERE}:9: added `- POST https://example.org/a` under `deny`\n"
        f"{WHERE}:10: added `- https://example.org/b` under `deny`\n"
    )
    assert exit_code(lambda: deny("DELETE https://example.org/b")) == 0
    expected = "DELETE https://example.org/b is already denied, by policy.yaml:10: any method https://example.org/b\n"
    assert capsys.readouterr() == (expected, "")


def test_names_the_rule_that_already_denies_the_request(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = policy.read_text()
    assert exit_code(lambda: deny("POST https://example.org/admin")) == 0
    expected = "POST https://example.org/admin is already denied, by policy.yaml:7: POST https://example.org/admin\n"
    assert (capsys.readouterr(), policy.read_text()) == ((expected, ""), before)
