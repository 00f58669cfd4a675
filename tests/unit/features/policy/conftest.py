import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.features.policy import services
from agent_sandbox.features.policy.commands import learn, suggest
from fake_tty import Person

POLICY = """\
version: 1
domains:
  - example.org
  - host: api.example.com
    rules: [{methods: [GET], path: {prefix: /v1/}}]
deny:
  - POST https://example.org/admin
"""


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a new project with a policy, and return the relative path of the policy."""
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer" / "policy.yaml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    return Path(".devcontainer/policy.yaml")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Fake a user at the terminal who types these lines and then ends the input."""

    def answer(*lines: str) -> None:
        monkeypatch.setattr(sys, "stdin", Person("".join(f"{line}\n" for line in lines)))
        for module in (learn, services, suggest):
            monkeypatch.setattr(module, "at_terminal", lambda: True)

    return answer
