import json
import os
from pathlib import Path

import pytest

from agent_sandbox.features.review import changes as module
from agent_sandbox.features.review import scan as scanning
from agent_sandbox.features.review.changes import (
    CHANGED,
    GONE_FOLDER,
    NOT_KEPT,
    NOT_PLAIN,
    Baseline,
    Change,
    Reviewed,
    accept,
    as_json,
    difference,
    find_changes,
    load_baseline,
    restore,
    save_baseline,
    take,
    text_of,
)
from agent_sandbox.problems import UserError


def test_loads_a_baseline_as_it_was_saved(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:\n\techo ü\n")
    (tmp_path / os.fsdecode(b"\xff.sh")).write_bytes(b"\xff\0")
    assert load_baseline(tmp_path, os.environ) is None
    taken = take(tmp_path)
    save_baseline(tmp_path, os.environ, taken)
    assert load_baseline(tmp_path, os.environ) == taken
    assert (taken.files["Makefile"].text, taken.files["\udcff.sh"].text) == ("all:\n\techo ü\n", None)


@pytest.mark.parametrize("text", ["", "[]", '{"files": 1}', '{"files": {"a": {}}}', "{"])
def test_a_damaged_record_is_ignored(tmp_path: Path, text: str) -> None:
    save_baseline(tmp_path, os.environ, Baseline())
    (file,) = (Path(os.environ["HOME"]) / ".local/state/agent-sandbox/review").glob("*/reviewed.json")
    file.write_text(text)
    assert load_baseline(tmp_path, os.environ) is None


def test_limits_the_amount_of_stored_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 5)
    files = {name: Reviewed(digest="0", executable=False, text="abc") for name in ("a", "b")}
    save_baseline(tmp_path, os.environ, Baseline(files=files))
    found = load_baseline(tmp_path, os.environ)
    assert found is not None
    assert [one.text for one in found.files.values()] == ["abc", None]


@pytest.mark.parametrize(("data", "text"), [(b"a", "a"), (b"", ""), (b"a\0", None), (b"\xff", None)])
def test_text_is_utf8_without_nul(data: bytes, text: str | None) -> None:
    assert text_of(data) == text
    assert text_of(b"a" * (module.MOST_TEXT + 1)) is None


def changed(root: Path, before: dict[str, str], after: dict[str, str | None]) -> dict[str, Change]:
    """Return the changes from the files `before` to `after`; None removes a file."""
    for path, text in before.items():
        (root / path).write_text(text)
    baseline = take(root)
    for path, now in after.items():
        (root / path).write_text(now) if now is not None else (root / path).unlink()
    return {one.path: one for one in find_changes(root, baseline).changes}


def test_new_changed_and_removed_files_are_found(tmp_path: Path) -> None:
    before = {"Makefile": "a\n", "tox.ini": "b\n", "run.sh": "c\n"}
    found = changed(tmp_path, before, {"Makefile": "z\n", "tox.ini": None, "new.sh": "n\n", "plain.txt": "x"})
    assert {path: str(one.how) for path, one in found.items()} == {
        "Makefile": "changed",
        "tox.ini": "removed",
        "new.sh": "new",
    }
    assert difference(found["Makefile"]) == ["--- a/Makefile", "+++ b/Makefile", "@@ -1 +1 @@", "-a", "+z"]
    assert difference(found["tox.ini"])[1] == "+++ /dev/null"
    assert as_json(found["new.sh"])["diff"] == ["--- /dev/null", "+++ b/new.sh", "@@ -0,0 +1 @@", "+n"]


def test_does_not_report_accepted_changes_again(tmp_path: Path) -> None:
    found = changed(tmp_path, {"Makefile": "a", "tox.ini": "b"}, {"Makefile": "z", "tox.ini": None})
    assert find_changes(tmp_path, accept(take(tmp_path), found.values())).changes == ()


def test_a_file_that_changes_after_it_was_shown_is_not_accepted(tmp_path: Path) -> None:
    found = changed(tmp_path, {"Makefile": "a"}, {"Makefile": "shown"})
    (tmp_path / "Makefile").write_text("later")
    again = find_changes(tmp_path, accept(take(tmp_path), found.values()))
    assert [one.path for one in again.changes] == ["Makefile"]


def test_reports_and_restores_a_change_of_the_mode_alone(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("x")
    (tmp_path / "run.sh").chmod(0o644)
    baseline = take(tmp_path)
    (tmp_path / "run.sh").chmod(0o755)
    (one,) = find_changes(tmp_path, baseline).changes
    assert one.notes == ("may be executed now",)
    restore(tmp_path, one)
    assert find_changes(tmp_path, baseline).changes == ()


def test_reports_new_hosts_and_install_scripts_in_a_lock_file(tmp_path: Path) -> None:
    def lock(*names: str) -> str:
        packages = {
            f"node_modules/{name}": {"resolved": f"https://{name}.test/x.tgz", "hasInstallScript": name != "a"}
            for name in names
        }
        return json.dumps({"packages": packages})

    found = changed(tmp_path, {"package-lock.json": lock("a", "b")}, {"package-lock.json": lock("a", "b", "evil")})
    assert found["package-lock.json"].notes == (
        "names evil.test",
        "new packages that run a script when they are installed: evil",
    )


def test_restoring_brings_back_changed_and_removed_files_and_removes_new_files(tmp_path: Path) -> None:
    found = changed(tmp_path, {"Makefile": "a\n", "tox.ini": "b\n"}, {"Makefile": "z", "tox.ini": None, "n.sh": "x"})
    for one in found.values():
        restore(tmp_path, one)
    assert sorted((path.name, path.read_text()) for path in tmp_path.iterdir()) == [
        ("Makefile", "a\n"),
        ("tox.ini", "b\n"),
    ]


def test_restoring_replaces_a_link_instead_of_following_it(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (project / "Makefile").write_text("a\n")
    baseline = take(project)
    (project / "Makefile").unlink()
    (project / "Makefile").symlink_to(victim)
    (one,) = find_changes(project, baseline).changes
    restore(project, one)
    assert (victim.read_text(), (project / "Makefile").read_text()) == ("mine", "a\n")
    assert not (project / "Makefile").is_symlink()


@pytest.mark.parametrize("size", [0, 1 << 40])
def test_restoring_replaces_a_pipe_and_a_huge_file(tmp_path: Path, size: int) -> None:
    (tmp_path / "Makefile").write_text("a\n")
    baseline = take(tmp_path)
    if size:
        os.truncate(tmp_path / "Makefile", size)
    else:
        (tmp_path / "Makefile").unlink()
        os.mkfifo(tmp_path / "Makefile")
    (one,) = find_changes(tmp_path, baseline).changes
    restore(tmp_path, one)
    assert (tmp_path / "Makefile").read_text() == "a\n"


def test_a_removed_link_cannot_be_restored(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("x")
    (tmp_path / "CLAUDE.sh").symlink_to("AGENTS.md")
    baseline = take(tmp_path)
    (tmp_path / "CLAUDE.sh").unlink()
    (one,) = find_changes(tmp_path, baseline).changes
    with pytest.raises(UserError) as raised:
        restore(tmp_path, one)
    assert [problem.what for problem in raised.value.problems] == [NOT_PLAIN]


def test_another_line_separator_is_a_difference(tmp_path: Path) -> None:
    found = changed(tmp_path, {"run.sh": "# check\nexit 1\n"}, {"run.sh": "# check\u2028exit 1\n"})
    assert difference(found["run.sh"])[2:] == ["@@ -1,2 +1 @@", "-# check", "-exit 1", "+# check\u2028exit 1"]


@pytest.mark.parametrize("what", [CHANGED, GONE_FOLDER, NOT_KEPT])
def test_says_why_a_file_cannot_be_restored(tmp_path: Path, what: str) -> None:
    (tmp_path / "sub").mkdir()
    text = "a\0" if what == NOT_KEPT else "a"
    found = changed(tmp_path, {"sub/Makefile": text}, {"sub/Makefile": None})["sub/Makefile"]
    if what == CHANGED:
        (tmp_path / "sub" / "Makefile").write_text("later")
    if what == GONE_FOLDER:
        (tmp_path / "sub").rmdir()
    with pytest.raises(UserError) as raised:
        restore(tmp_path, found)
    assert [problem.what for problem in raised.value.problems] == [what]


def test_an_incomplete_walk_reports_no_file_as_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (tmp_path / f"{number}.sh").write_text("x")
    baseline = take(tmp_path)
    monkeypatch.setattr(scanning, "MOST_ENTRIES", 2)
    found = find_changes(tmp_path, baseline)
    assert (found.changes, found.complete) == ((), False)
