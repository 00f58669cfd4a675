from pathlib import Path

from agent_sandbox.runtime.policies.declined import MOST, load_declined, save_declined


def test_declined_rules_are_remembered_for_each_policy_file(tmp_path: Path) -> None:
    environ, policy = {"HOME": str(tmp_path)}, tmp_path / "policy.yaml"
    assert load_declined(policy, environ) == frozenset()
    save_declined(policy, {"GET https://a.test/", "b.test"}, environ)
    assert load_declined(policy, environ) == {"GET https://a.test/", "b.test"}
    assert load_declined(tmp_path / "other.yaml", environ) == frozenset()


def test_a_damaged_record_counts_as_empty(tmp_path: Path) -> None:
    environ, policy = {"HOME": str(tmp_path)}, tmp_path / "policy.yaml"
    save_declined(policy, {"a.test"}, environ)
    (file,) = (tmp_path / ".local" / "state" / "agent-sandbox" / "declined").iterdir()
    for text in ("no json", "{}", "\xff"):
        file.write_text(text, encoding="latin-1")
        assert load_declined(policy, environ) == frozenset()


def test_limits_the_number_of_remembered_rules(tmp_path: Path) -> None:
    environ, policy = {"HOME": str(tmp_path)}, tmp_path / "policy.yaml"
    save_declined(policy, {str(number) for number in range(MOST + 9)}, environ)
    assert len(load_declined(policy, environ)) == MOST
