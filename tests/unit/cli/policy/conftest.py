from pathlib import Path

import pytest

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
    """Make a project with a policy the current directory, and return the policy as a person there would name it."""
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer" / "policy.yaml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    return Path(".devcontainer/policy.yaml")
