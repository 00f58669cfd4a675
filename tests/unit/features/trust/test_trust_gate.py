import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.stack.init.initialise import InitOptions, prepare
from agent_sandbox.features.trust import trust_gate
from agent_sandbox.features.trust.prompt import Question, unseen_in
from agent_sandbox.features.trust.trust_gate import (
    agree,
    as_lines,
    find_checked_in,
    open_known,
    open_trusted,
    open_unasked,
)
from agent_sandbox.problems import UserError
from agent_sandbox.project.render.formats.header import stamped
from agent_sandbox.project.render.paths import DEVCONTAINER, IGNORE, SHARED, STACK, VALUES
from agent_sandbox.project.render.reconcile import OnConflict
from agent_sandbox.project.trust_snapshot import Standing, look
from agent_sandbox.project.trust_store import open_store
from agent_sandbox.resources import data_root
from fake_tty import Person

AGENT = known_agents(data_root() / "templates")[0]
POLICY = ".devcontainer/policy.yaml"
QUESTION = Question(
    standing=Standing(root=Path("/home/ann/app"), owner=None, stack_files=(), files={}),
    fingerprint="0123",
    changed=(POLICY,),
    known=False,
    sets=(),
    reaches=("any method example.org", "service github: 4 rules"),
    mounts=("agent: . as /workspace",),
    injects=(),
    editor=(),
    notes=(),
    differences=(),
)
SHOWN = """\
/home/ann/app asks for this:
  reaches       any method example.org
                service github: 4 rules
  mounts        agent: . as /workspace
  injects       nothing
fingerprint 0123
"""
WIDER = "version: 1\ndomains: [example.org, example.net]\n"


def refused(question: Question, yes: str = "") -> int:
    return exit_code(lambda: agree(question, yes=yes))


def test_summarises_what_a_project_asks_for() -> None:
    assert "\n".join(as_lines(QUESTION)) + "\n" == SHOWN


def test_shows_only_what_is_new_in_a_change() -> None:
    question = replace(
        QUESTION,
        known=True,
        sets=(),
        reaches=(),
        injects=("TOKEN",),
        editor=('on this machine, initializeCommand: "make"',),
        notes=("this directory belongs to user 7, who can change everything in it",),
        differences=("--- a/x", "+++ b/x", "+y"),
    )
    assert list(as_lines(question)) == [
        "--- a/x",
        "+++ b/x",
        "+y",
        "",
        "/home/ann/app asks for more than you trust:",
        "  also mounts   agent: . as /workspace",
        "  also injects  TOKEN, from your shell",
        '  editor        on this machine, initializeCommand: "make"',
        "  note          this directory belongs to user 7, who can change everything in it",
        "fingerprint 0123",
    ]


def test_counts_long_lists_but_shows_differences_completely() -> None:
    many = tuple(f"any method {number}.test" for number in range(70))
    lines = list(as_lines(replace(QUESTION, reaches=many, differences=many)))
    assert lines[70:72] == ["", "/home/ann/app asks for this:"]
    assert (lines[131], lines[132]) == (
        "                any method 59.test",
        "                ... and 10 more lines: see the file",
    )
    assert list(many) == lines[:70]


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_asks_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, code: int) -> None:
    monkeypatch.setattr(sys, "stdin", Person(typed))
    assert refused(QUESTION) == code
    no = "error: /home/ann/app: you did not trust it, so nothing was written or started\n" if code else ""
    assert capsys.readouterr().err == f"{SHOWN}Trust this? [y/N] {no}"


def test_refuses_without_a_terminal_and_explains_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(QUESTION) == 1
    assert capsys.readouterr().err == (
        f"{SHOWN}error: /home/ann/app: not trusted yet: {POLICY}; there is no terminal to ask on\n"
        "  hint: run agent-sandbox trust at a terminal; or, after a review, use --yes 0123\n"
    )


def test_a_fingerprint_confirms_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(QUESTION, "0123") == 0
    assert capsys.readouterr().err == ""
    assert refused(QUESTION, "012") == 1
    assert capsys.readouterr().err == (
        f"{SHOWN}error: /home/ann/app: fingerprint mismatch: the settings are not those of 012\n"
        "  hint: review them, then use --yes 0123\n"
    )


def test_escapes_names_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    refused(replace(QUESTION, mounts=("agent: \x1b[2K/ as /x\n  injects nothing",)))
    assert "  mounts        agent: \\x1b[2K/ as /x\\x0a  injects nothing\n" in capsys.readouterr().err


def test_opens_trusted_projects_without_a_question(project: Path) -> None:
    opened = open_trusted(None, cwd=project)
    assert opened.files == open_store(os.environ).copies(look(project, os.environ))


def test_remembers_a_yes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / POLICY).write_text(WIDER)
    monkeypatch.setattr(sys, "stdin", Person("y\n"))
    first, second = open_trusted(None, cwd=project), open_trusted(None, cwd=project)
    assert first == second


def test_a_narrower_policy_needs_no_question_and_keeps_the_trust(project: Path) -> None:
    before = (project / POLICY).read_text()
    (project / POLICY).write_text("version: 1\n")
    open_trusted(None, cwd=project)
    (project / POLICY).write_text(before)
    assert open_trusted(None, cwd=project).name == "app-1"


def test_rejects_files_that_change_during_the_question(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(_: Question, **_yes: str) -> None:
        (project / POLICY).write_text(f"{WIDER}services: [github]\n")

    (project / POLICY).write_text(WIDER)
    monkeypatch.setattr(trust_gate, "agree", slowly)
    with pytest.raises(UserError) as raised:
        open_trusted(None, cwd=project)
    expected = f"{project}: it changed while you looked at it; run the command again to see the difference"
    assert str(raised.value) == expected
    assert unseen_in(project, os.environ) == (POLICY,)


def test_an_earlier_yes_is_enough_to_enter_a_stack(project: Path) -> None:
    (project / POLICY).write_text(WIDER)
    assert open_known(None, cwd=project).name == "app-1"
    open_store(os.environ).forget(project)
    with pytest.raises(UserError, match="there is no terminal to ask on"):
        open_known(None, cwd=project)


def test_refers_a_copied_project_to_init_before_any_question(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    (project / POLICY).write_text(WIDER)
    with pytest.raises(UserError, match="the stack app-1 belongs to another directory"):
        open_trusted(project, cwd=project)


def test_a_dry_run_uses_the_files_without_trusting_them(project: Path) -> None:
    trusted = open_unasked(None, cwd=project).files
    assert trusted == open_store(os.environ).copies(look(project, os.environ))
    open_store(os.environ).forget(project)
    assert open_unasked(None, cwd=project).files == (project / ".devcontainer" / "docker-compose.yml",)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a new clone of a project that is checked in; nobody trusts it yet."""
    original, clone = tmp_path / "original", tmp_path / "clone"
    for root in (original, clone):
        (root / ".devcontainer").mkdir(parents=True)
    wish = InitOptions(
        agents=(AGENT,), path=original, title=None, ide=None, on_conflict=OnConflict.KEEP, detect=False, services=False
    )
    prepare(wish, os.environ).write()
    for path in (SHARED, DEVCONTAINER, IGNORE, POLICY):
        shutil.copy(original / path, clone / path)
    monkeypatch.chdir(clone)
    return clone


def opens(root: Path) -> int:
    def call() -> None:
        open_trusted(None, cwd=root)

    return exit_code(call)


def texts_of(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("typed", [None, "n\n", "", KeyboardInterrupt])
def test_writes_nothing_into_a_new_clone_before_it_is_trusted(
    clone: Path, monkeypatch: pytest.MonkeyPatch, typed: str | type[KeyboardInterrupt] | None
) -> None:
    before = texts_of(clone)
    if isinstance(typed, str):
        monkeypatch.setattr(sys, "stdin", Person(typed))
    elif typed:
        monkeypatch.setattr(trust_gate, "agree", Mock(side_effect=typed))
    for command in (open_trusted, find_checked_in):
        with suppress(UserError, KeyboardInterrupt):
            command(None, cwd=clone)
    assert texts_of(clone) == before
    assert open_store(os.environ).load(clone) is None


def test_writes_the_files_of_a_new_clone_once_it_is_trusted(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert opens(clone) == 1
    *_, hint = capsys.readouterr().err.splitlines()
    assert hint.startswith("  hint: run agent-sandbox trust at a terminal; or, after a review, use --yes ")
    opened = open_trusted(None, cwd=clone, yes=hint.rpartition(" ")[2])
    *_, last = capsys.readouterr().err.splitlines()
    assert last == "wrote .devcontainer/docker-compose.yml, .devcontainer/.env, .env for this clone"
    assert (opened.root, opened.name[:6]) == (clone, "clone-")
    assert open_trusted(None, cwd=clone) == opened


def test_rewrites_lost_values_of_a_trusted_clone_without_a_question(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Person("y\n"))
    opened, values = open_trusted(None, cwd=clone), (clone / VALUES).read_text()
    (clone / VALUES).unlink()
    assert (open_trusted(None, cwd=clone), (clone / VALUES).read_text()) == (opened, values)


def test_writes_no_files_of_a_new_clone_that_changes_during_the_question(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(_: Question, **_yes: str) -> None:
        body = (clone / SHARED).read_text().split("\n", 2)[2]
        (clone / SHARED).write_text(stamped(body.replace("vscode", "vscode, limits: {memory: 64g}"), comment="#"))

    monkeypatch.setattr(trust_gate, "agree", slowly)
    assert opens(clone) == 1
    assert not (clone / STACK).exists()


def test_a_new_clone_is_found_from_its_directories_and_every_other_command_names_the_next_one(clone: Path) -> None:
    (clone / "src").mkdir()
    with pytest.raises(UserError) as raised:
        open_known(None, cwd=clone / "src")
    assert str(raised.value) == f"{clone}: no stack in this directory; agent-sandbox up makes it for this clone"


def test_pulled_choices_are_shown_and_apply_once_trusted(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opens(clone)
    yes = capsys.readouterr().err.rpartition(" ")[2].strip()
    open_trusted(None, cwd=clone, yes=yes)
    body = (clone / SHARED).read_text().split("\n", 2)[2].replace("ide: vscode", "ide: vscode, limits: {memory: 64g}")
    (clone / SHARED).write_text(stamped(body, comment="#"))
    before = texts_of(clone)
    assert opens(clone) == 1
    assert texts_of(clone) == before
    shown = capsys.readouterr().err
    assert "+    mem_limit: 64g\n" in shown
    named = f".devcontainer/docker-compose.yml, .devcontainer/stack.json, {SHARED}"
    assert f"not trusted yet: {named}; there is no terminal" in shown
    opened = open_trusted(None, cwd=clone, yes=shown.rpartition(" ")[2].strip())
    assert "mem_limit: 64g" in opened.files[0].read_text()


@pytest.mark.parametrize("more", ["services: {evil: {image: x, privileged: true}}", "volumes: {}"])
def test_refuses_a_clone_whose_compose_file_starts_more_in_an_editor(clone: Path, more: str) -> None:
    body = (clone / SHARED).read_text().split("\n", 2)[2]
    (clone / SHARED).write_text(stamped(f"{body}{more}\n", comment="#"))
    with pytest.raises(UserError) as raised:
        open_trusted(None, cwd=clone)
    odd = "is not as agent-sandbox writes it: an editor would start something other than the sandbox"
    hint = "agent-sandbox init --force writes this file again"
    assert str(raised.value) == f"{clone}/{SHARED}: `{more.partition(':')[0]}` {odd}; {hint}"
    assert open_store(os.environ).load(clone) is None
