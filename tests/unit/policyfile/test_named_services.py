from pathlib import Path

import pytest

from agent_sandbox.features.policy.layers import unresolved_here
from agent_sandbox.policyfile.named_services import named_in, without_file
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
def test_finds_the_resolved_services_that_a_policy_names(text: str, names: set[str]) -> None:
    assert named_in(text) == names


def test_without_file_omits_services_that_have_a_file(policy: Path) -> None:
    policy.write_text("services: [npm, pip]")
    assert without_file(policy) == ("node", "python")
    (policy.parent / "services").mkdir()
    (policy.parent / "services" / "node.yaml").touch()
    assert without_file(policy) == ("python",)
    for name in ("debian", "python"):
        (policy.parent / "services" / f"{name}.yaml").touch()
    assert without_file(policy) == ()


def test_without_file_returns_nothing_for_an_unreadable_policy(policy: Path) -> None:
    policy.write_bytes(b"\xff")
    assert without_file(policy) == ()
    policy.unlink()
    assert without_file(policy) == ()


def test_a_mirror_without_a_file_does_not_count_as_unresolved(policy: Path) -> None:
    policy.write_text("services: [go, npm, github]")
    assert without_file(policy) == ("go-mirror", "node")
    assert unresolved_here(policy, {}) == ("node",)
