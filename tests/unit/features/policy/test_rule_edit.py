from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_sandbox.features.policy.rule_edit import planned_edits, planned_entries, write_edit
from agent_sandbox.policy import Effect
from agent_sandbox.policytools.edit.editing import Edited
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.problems import UserError

RULE = read_short_rule(Effect.ALLOW, ("GET https://a.test/",))
BEFORE = b"\xef\xbb\xbf# c\r\nallow: []\r\n"
AFTER = b'\xef\xbb\xbf# c\r\nallow: ["GET https://a.test/"]\r\n'


def planned(file: Path, environ: Mapping[str, str] | None = None) -> tuple[str, Edited]:
    before, (after,) = planned_edits(file, [RULE], environ or {})
    assert isinstance(after, Edited)
    return before, after


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / ".devcontainer").mkdir()
    file = tmp_path / ".devcontainer" / "policy.yaml"
    file.write_bytes(BEFORE)
    return file


def test_changes_only_the_new_bytes_and_keeps_the_mode(file: Path, tmp_path: Path) -> None:
    file.chmod(0o640)
    write_edit(file, *planned(file))
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (AFTER, 0o640)
    assert [path.name for path in file.parent.iterdir()] == ["policy.yaml"]
    alone = tmp_path / "alone.yaml"
    alone.write_bytes(BEFORE)
    write_edit(alone, *planned(alone))
    assert alone.read_bytes() == AFTER


def test_plans_an_edit_of_a_policy_with_a_shipped_service(file: Path) -> None:
    file.write_text("services: [github]\n")
    assert planned(file)[1].line == 3


def test_rejects_an_allow_that_another_layer_denies(file: Path, tmp_path: Path) -> None:
    (tmp_path / "agent-sandbox").mkdir()
    (tmp_path / "agent-sandbox" / "policy.yaml").write_text("deny: [a.test]\n")
    with pytest.raises(UserError, match=r"is denied by user/policy\.yaml:1 \(any method a\.test\)"):
        planned(file, {"XDG_CONFIG_HOME": str(tmp_path)})


def test_does_not_overwrite_a_file_that_changed_meanwhile(file: Path) -> None:
    plan = planned(file)
    file.write_bytes(b"deny: []\n")
    with pytest.raises(UserError, match=r"policy\.yaml: changed in the meantime; try again"):
        write_edit(file, *plan)
    assert file.read_bytes() == b"deny: []\n"


def test_does_not_write_through_a_symbolic_link(file: Path) -> None:
    real = file.parent.rename(file.parent.with_name("elsewhere"))
    file.parent.symlink_to(real)
    with pytest.raises(UserError, match="agent-sandbox does not follow symbolic links"):
        write_edit(file, *planned(file))
    assert (real / "policy.yaml").read_bytes() == BEFORE
    (real / "policy.yaml").rename(real / "other.yaml")
    (real / "policy.yaml").symlink_to(real / "other.yaml")
    with pytest.raises(UserError, match="symbolic link; replace it with the file itself"):
        planned(real / "policy.yaml")


def test_entries_are_added_together_with_a_note(file: Path) -> None:
    file.write_text("# c\nservices:\n  - go\n")
    other = read_short_rule(Effect.ALLOW, ("GET https://b.test/",))
    planned = planned_entries(file, ["go", "github"], [RULE, other, RULE], {}, note="learned today")
    assert planned.before == "# c\nservices:\n  - go\n"
    assert planned.after.text == (
        "# c\nservices:\n  - go\n  - github  # learned today\n"
        "allow:\n  - GET https://a.test/  # learned today\n  - GET https://b.test/  # learned today\n"
    )
    assert {str(rule.origin) for rule in planned.policy.index.rules_for("b.test")} == {"policy.yaml:7"}
    assert (planned.after.line, planned.problems) == (7, ())


def test_adds_the_other_entries_if_one_cannot_be_added(file: Path) -> None:
    file.write_text("deny: [a.test]\n")
    other = read_short_rule(Effect.ALLOW, ("GET https://b.test/",))
    planned = planned_entries(file, [], [RULE, other], {}, note="n")
    assert planned.after.text == "deny: [a.test]\nallow:\n  - GET https://b.test/  # n\n"
    assert [problem.what.partition(",")[0] for problem in planned.problems] == [
        "GET https://a.test/ is denied by policy.yaml:1 (any method a.test)"
    ]
