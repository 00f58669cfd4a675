from pathlib import Path

import pytest

from agent_sandbox.policyfile.named_services import named_in, without_file
from agent_sandbox.runtime.policies.layers import unresolved_here
from table_tests import each


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / ".devcontainer" / "policy.yaml"
    path.parent.mkdir()
    path.write_text("services: [node]")
    return path


@each(
    ("text", "names"),
    [
        ("services: [node, pip, {name: Apt}, github]", {"node", "python", "debian"}),
        ("services: [cargo, go]", {"rust-mirror", "go-mirror"}),
        ("services: [{readonly: true}, [node], 1]", set()),
        ("services: node", set()),
        ("- services", set()),
        ("", set()),
        ("services: [node", set()),
        ("# node\ndomains: [node]", set()),
    ],
)
def test_a_policy_names_them_in_any_spelling(text: str, names: set[str]) -> None:
    assert named_in(text) == names


def test_what_has_a_file_is_resolved(policy: Path) -> None:
    policy.write_text("services: [npm, pip]")
    assert without_file(policy) == ("node", "python")
    (policy.parent / "services").mkdir()
    (policy.parent / "services" / "node.yaml").touch()
    assert without_file(policy) == ("python",)
    for name in ("debian", "python"):
        (policy.parent / "services" / f"{name}.yaml").touch()
    assert without_file(policy) == ()


def test_loading_reports_a_policy_that_cannot_be_read(policy: Path) -> None:
    policy.write_bytes(b"\xff")
    assert without_file(policy) == ()
    policy.unlink()
    assert without_file(policy) == ()


def test_a_service_without_a_mirror_allows_what_it_ships_with(policy: Path) -> None:
    policy.write_text("services: [go, npm, github]")
    assert without_file(policy) == ("go-mirror", "node")
    assert unresolved_here(policy, {}) == ("node",)
