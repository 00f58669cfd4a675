import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.review import scan
from agent_sandbox.features.review.changes import save_baseline, take
from agent_sandbox.features.review.commands.review import review
from clone_worlds import git
from engine import ROOT
from fake_tty import Person, Screen

QUESTION = "Accept this change? [y]es, [n]ot now, [r]estore, [a]ll of this kind, [q]uit: "
BUILD = "build  runs with make, a build tool or a task runner"
KEPT = "[user]\n\tname = Bot\n[core]\n\tpager = \x1bevil\n"
OFFERED = [
    "git  settings that the agent wanted to save in your repository",
    "  new      user.name = Bot",
    "  refused  core.pager = \\x1bevil",
    "  refused settings could run a program or connect elsewhere: to save one anyway, run `git config` yourself",
]
TO_SAVE = "git settings to save: agent-sandbox review at a terminal, or --accept .git/config, or --restore .git/config"
SAVED = "saved in .git/config: user.name"


@pytest.fixture
def changed(project: Path) -> Path:
    """Change two build files and add a script after the last review."""
    for name in ("Makefile", "rules.mk"):
        (project / name).write_text("old\n")
    save_baseline(project, os.environ, take(project))
    for name in ("Makefile", "rules.mk"):
        (project / name).write_text("new\n")
    (project / "run.sh").write_text("\x1b[2Jevil\n")
    return project


def test_reports_that_nothing_was_reviewed_before_the_first_start(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    assert exit_code(review) == 0
    said = (
        "nothing was reviewed yet: the first `agent-sandbox up` records the files as they are before the agent starts"
    )
    assert capsys.readouterr() == ("", f"{said}\n")


def test_changes_are_shown_by_kind_with_their_reason(changed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (changed / "web" / "node_modules").mkdir(parents=True)
    assert exit_code(review) == 1
    assert capsys.readouterr().out.splitlines() == [
        BUILD,
        "  changed  Makefile",
        *("@@ -1 +1 @@", "-old", "+new"),
        "  changed  rules.mk",
        *("@@ -1 +1 @@", "-old", "+new"),
        "scripts  is run by its name",
        "  new      run.sh",
        *("@@ -0,0 +1 @@", "+\\x1b[2Jevil"),
        "not searched: web/node_modules",
        "3 changes to review: agent-sandbox review at a terminal, or --accept, or --restore PATH",
    ]


def test_shows_changed_lines_that_look_like_a_diff_header(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "vite.config.js").write_text("-- x\n")
    save_baseline(project, os.environ, take(project))
    (project / "vite.config.js").write_text("++ x; evil()\n")
    assert exit_code(review) == 1
    assert capsys.readouterr().out.splitlines()[2:5] == ["@@ -1 +1 @@", "--- x", "+++ x; evil()"]


@pytest.mark.parametrize("accept", [False, True])
def test_exits_with_1_if_not_all_files_were_searched(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, accept: bool
) -> None:
    save_baseline(project, os.environ, take(project))
    monkeypatch.setattr(scan, "MOST_ENTRIES", 0)
    assert exit_code(lambda: review(accept=accept)) == 1
    assert "the project has too many files: not all were searched\n" in "".join(capsys.readouterr())


@pytest.mark.parametrize("name", ["pre-push", "pre-commit"])
def test_the_documented_git_hook_stops_git_until_the_changes_are_reviewed(
    changed: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Git sets its own variables for hooks, and gives `pre-push` a pipe as stdin."""
    program = (outside := tmp_path_factory.mktemp("outside")) / "agent-sandbox"
    start = f'PYTHONPATH={ROOT}/src exec {sys.executable} -P -m agent_sandbox "$@"'
    program.write_text(f"#!/bin/sh\n{start}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{outside}:/usr/bin:/bin")
    git(changed, "init", "--quiet", "--initial-branch=main")
    git(changed, "add", "--all")
    git(changed, "commit", "--quiet", "--message", "first")
    git(changed, "init", "--quiet", "--bare", str(outside / "other.git"))
    (script,) = re.findall(r"```sh\n(cat >\.git/hooks/.*?)```", (ROOT / "docs" / "host.md").read_text(), re.DOTALL)
    (changed / ".git" / "hooks").mkdir()
    subprocess.run(["/bin/sh", "-ec", script.replace("pre-push", name)], cwd=changed, check=True)
    act = {
        "pre-push": ("push", "--quiet", str(outside / "other.git"), "main"),
        "pre-commit": ("commit", "--quiet", "--allow-empty", "--message", "second"),
    }[name]
    with pytest.raises(subprocess.CalledProcessError) as stopped:
        git(changed, *act)
    said = stopped.value.stderr.decode()
    assert said.startswith(f"{BUILD}\n  changed  Makefile\n")
    assert "3 changes to review: agent-sandbox review at a terminal, or --accept, or --restore PATH\n" in said
    assert exit_code(lambda: review(accept=True)) == 0
    git(changed, *act)


def test_json_output_has_the_same_changes(changed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert changed.exists()
    assert exit_code(lambda: review(json=True)) == 1
    said = json.loads(capsys.readouterr().out)
    assert [(one["path"], one["kind"], one["how"]) for one in said["changes"]] == [
        ("Makefile", "build", "changed"),
        ("rules.mk", "build", "changed"),
        ("run.sh", "scripts", "new"),
    ]
    assert (said["complete"], said["skipped"]) == (True, [".devcontainer"])


def test_escapes_the_name_of_a_restored_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_baseline(project, os.environ, take(project))
    file = project / "run\nnothing to review.sh"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    assert exit_code(lambda: review([file.name], restore=True)) == 0
    assert capsys.readouterr().err == "removed run\\x0anothing to review.sh\n"


def test_accepted_and_restored_files_are_not_shown_again(changed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: review(["Makefile"], accept=True)) == 0
    assert exit_code(lambda: review(["run.sh", "./rules.mk"], restore=True)) == 0
    assert capsys.readouterr().err == "1 change accepted\nremoved run.sh\nrestored rules.mk\n"
    assert ((changed / "rules.mk").read_text(), (changed / "run.sh").exists()) == ("old\n", False)
    assert exit_code(review) == 0
    assert capsys.readouterr().out == "nothing to review\n"


@pytest.mark.parametrize(
    ("paths", "accept", "restore", "said"),
    [
        (["Makefile"], True, True, "error: --restore: cannot be combined with --accept\n"),
        (None, False, True, "error: --restore: needs the files to restore\n  hint: --restore PATH...\n"),
        (
            ["x.mk"],
            True,
            False,
            "error: x.mk: has no change to review\n  hint: agent-sandbox review lists them\n",
        ),
    ],
)
def test_invalid_options_are_an_error(
    changed: Path, capsys: pytest.CaptureFixture[str], paths: list[str], said: str, *, accept: bool, restore: bool
) -> None:
    assert changed.exists()
    assert exit_code(lambda: review(paths, accept=accept, restore=restore)) == 1
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("typed", "code", "left"),
    [
        ("y\ny\ny\n", 0, []),
        ("a\nn\n", 1, ["run.sh"]),
        ("y\nq\n", 1, ["rules.mk", "run.sh"]),
        ("r\ny\nr\n", 0, []),
        ("", 1, ["Makefile", "rules.mk", "run.sh"]),
        ("\nwhat\n\n", 1, ["Makefile", "rules.mk", "run.sh"]),
    ],
)
def test_asks_about_each_change_at_a_terminal(
    changed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    typed: str,
    code: int,
    left: list[str],
) -> None:
    assert changed.exists()
    monkeypatch.setattr(sys, "stdin", Person(typed))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert exit_code(review) == code
    assert QUESTION in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.chdir(changed)
    assert exit_code(lambda: review(json=True)) == int(bool(left))
    assert [one["path"] for one in json.loads(capsys.readouterr().out)["changes"]] == left


@pytest.fixture
def wished(project: Path) -> Path:
    """Have git settings that the agent could not save."""
    subprocess.run(["git", "init", "--quiet", project], check=True)
    save_baseline(project, os.environ, take(project))
    (project / ".git" / "agent-sandbox.config").write_text(KEPT)
    return project


def name(root: Path) -> str:
    argv = ["git", "-C", str(root), "config", "--local", "user.name"]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()


def test_settings_that_the_agent_wanted_to_save_are_shown(wished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(review) == 1
    assert capsys.readouterr().out.splitlines() == [*OFFERED, TO_SAVE]
    assert exit_code(lambda: review(json=True)) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["git"] == {"offered": [["user.name", "Bot"]], "refused": [["core.pager", "\x1bevil"]]}
    assert name(wished) == ""


def test_saves_settings_only_if_their_file_is_named(wished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (wished / "Makefile").write_text("new\n")
    assert exit_code(lambda: review(accept=True)) == 0
    assert (name(wished), capsys.readouterr().err) == ("", f"1 change accepted\n{TO_SAVE}\n")
    assert exit_code(lambda: review([".git/config"], accept=True)) == 0
    assert (name(wished), capsys.readouterr().err) == ("Bot", f"{SAVED}\n")
    assert exit_code(review) == 0
    assert capsys.readouterr().out.splitlines() == [OFFERED[0], *OFFERED[2:]]
    assert exit_code(lambda: review([".git/config"], accept=True)) == 0
    assert exit_code(lambda: review([".git/config"], restore=True)) == 0
    assert capsys.readouterr().err == f"removed {wished}/.git/agent-sandbox.config\n"
    assert exit_code(lambda: review([".git/config"])) == 0
    assert capsys.readouterr().out == "nothing to review\n"


@pytest.mark.parametrize(
    ("typed", "code", "now", "is_left"),
    [("y\n", 0, "Bot", True), ("n\n", 1, "", True), ("", 1, "", True), ("d\n", 0, "", False)],
)
def test_the_user_is_asked_about_settings(
    wished: Path, monkeypatch: pytest.MonkeyPatch, *, typed: str, code: int, now: str, is_left: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Person(typed))
    monkeypatch.setattr(sys, "stdout", Screen())
    assert exit_code(review) == code
    assert (name(wished), (wished / ".git" / "agent-sandbox.config").exists()) == (now, is_left)


def test_refused_settings_alone_cannot_be_accepted(
    wished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (wished / ".git" / "agent-sandbox.config").write_text("[core]\n\tpager = evil\n")
    monkeypatch.setattr(sys, "stdin", Person("y\n"))
    monkeypatch.setattr(sys, "stdout", Screen())
    assert exit_code(review) == 0
    assert capsys.readouterr().err == "Drop these settings? [d]rop, [n]ot now: "
    assert "pager" not in (wished / ".git" / "config").read_text()


def test_settings_are_not_asked_about_after_quitting(wished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (wished / "Makefile").write_text("new\n")
    monkeypatch.setattr(sys, "stdin", Person("q\ny\n"))
    monkeypatch.setattr(sys, "stdout", Screen())
    assert exit_code(review) == 1
    assert name(wished) == ""
