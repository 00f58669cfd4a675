from pathlib import Path

import pytest

from agent_sandbox.features.protect.snapshot import NOT_ALONE, Held
from agent_sandbox.features.protect.snapshot_diff import MOST_LINES, REORDERED, Rewritten, rewritten, unwatched
from agent_sandbox.host.git.git_config import UNREADABLE

CONFIG = ".git/config"


def settings(*lines: str) -> Held:
    return Held(
        texts={CONFIG: "\n".join(lines)}, settings={CONFIG: tuple(line.replace("=", "\n", 1) for line in lines)}
    )


@pytest.mark.parametrize(
    "line",
    [
        "core.hookspath=/tmp/x",
        "core.fsmonitor=./x",
        "core.sshcommand=x",
        "core.pager=x",
        "core.worktree=/",
        "alias.st=!x",
        "filter.x.clean=x",
        "diff.external=x",
        "diff.x.textconv=x",
        "merge.x.driver=x",
        "url.https://a.test/.insteadof=https://b.test/",
        "include.path=../x",
        "credential.helper=x",
        "remote.origin.uploadpack=x",
        "remote.origin.url=ext::sh -c x",
        "remote.origin.url=--upload-pack=x",
        "remote.origin.url=./x",
        "remote.origin.url=/home/me/x",
        "remote.origin.url=file:///x",
        "remote.origin.url=c:/x",
        "remote.origin.url=",
        "remote.origin.pushurl=x",
        "remote.origin.pushurl=ssh://-oProxyCommand=x/y",
        "submodule.x.url=./x",
        "branch.main.remote=x",
        "branch.main.pushremote=/x",
        "core.protecthfs=false",
        "core.protectntfs=false",
        "submodule.x.update=!x",
        "gpg.program=x",
        "something.new=x",
        "remote.origin.url=http://example.com/x.git",
        "remote.origin.url=git://example.com/x.git",
        "remote.origin.url=ssh://-oProxyCommand=x@example.com/y",
        "remote.origin.url=example.com:-x",
    ],
)
def test_reports_new_settings_that_can_run_a_program(line: str) -> None:
    key = line.partition("=")[0]
    found = rewritten(CONFIG, settings("core.bare=false"), settings("core.bare=false", line))
    assert found.runs == (f"{CONFIG}: {key}",)
    assert rewritten(CONFIG, settings(line), settings(line, "core.bare=true")).runs == ()


@pytest.mark.parametrize("marker", [UNREADABLE, NOT_ALONE])
def test_reports_changes_to_settings_that_were_already_unreadable_or_linked(marker: str) -> None:
    then, now = (Held(texts={CONFIG: text}, settings={CONFIG: (marker,)}) for text in "ab")
    assert rewritten(CONFIG, then, now).runs == (f"{CONFIG}: {marker}",)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("core.fsmonitor=./x", "core.fsmonitor=false"), ("core.fsmonitor=false", "core.fsmonitor=./x")),
        (("core.fsmonitor=./x", "core.fsmonitor=false"), ("core.fsmonitor=./x",)),
        (("include.path=x", "core.fsmonitor=false"), ("core.fsmonitor=false", "include.path=x")),
        (("remote.o.url=./x", "remote.o.url=https://a.test/x"), ("remote.o.url=https://a.test/x", "remote.o.url=./x")),
    ],
)
def test_reports_reordered_settings_whose_order_matters(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    found = rewritten(CONFIG, settings(*before), settings("core.bare=false", *after))
    assert found.runs == (f"{CONFIG}: {REORDERED}",)


@pytest.mark.parametrize(
    "line",
    [
        "remote.origin.url=https://example.com/x.git",
        "remote.origin.pushurl=git@example.com:me/x.git",
        "submodule.x.url=ssh://git@example.com:22/me/x.git",
        "branch.main.remote=.",
        "branch.main.pushremote=https://example.com/x.git",
        "remote.origin.fetch=+refs/heads/*:refs/remotes/origin/*",
        "branch.main.merge=refs/heads/main",
        "user.name=Ann",
        "core.filemode=true",
    ],
)
def test_common_git_settings_do_not_count_as_running_a_program(line: str) -> None:
    found = rewritten(CONFIG, Held(), settings(line))
    assert found == Rewritten(
        path=CONFIG, lines=("--- /dev/null", f"+++ b/{CONFIG}", "@@ -0,0 +1 @@", f"+{line}"), runs=()
    )


def test_reports_a_branch_whose_remote_has_no_url() -> None:
    lines = ("remote.me/x.url=https://example.com/x.git", "branch.main.remote=me/x")
    assert rewritten(CONFIG, Held(), settings(*lines)).runs == ()
    assert rewritten(CONFIG, Held(), settings(lines[1])).runs == (f"{CONFIG}: branch.main.remote",)


@pytest.mark.parametrize("line", ["remote.origin.url=https://a.test/x", "core.hookspath=/x", "protocol.allow=never"])
def test_reports_removed_settings(line: str) -> None:
    key = line.partition("=")[0]
    found = rewritten(CONFIG, settings(line, "user.name=Ann"), settings("core.bare=false"))
    assert found.runs == (f"{CONFIG}: {key}, which was removed",)
    assert rewritten(CONFIG, settings(line), Held()).runs == found.runs


def test_reports_new_and_changed_files_but_not_removed_files() -> None:
    then = Held(texts={".vscode/a": "1\n", ".vscode/b": "2\n", ".vscode/c": "3\n", ".vscodex": "4"})
    now = Held(texts={".vscode/a": "1\n", ".vscode/b": "0\n", ".vscode/d": "5\n"})
    found = rewritten(".vscode", then, now)
    assert found.runs == (".vscode/b", ".vscode/d")
    assert [line for line in found.lines if line[:2] in {"+0", "-2", "-3", "+5"}] == ["-2", "+0", "-3", "+5"]


def test_unwatched_returns_changed_paths_except_those_that_trust_asks_about(tmp_path: Path) -> None:
    for name in (".env", ".envrc", ".mcp.json"):
        (tmp_path / name).write_text("1")
    then = Held(texts={".env": "0", ".envrc": "0", ".mcp.json": "1"}, paths=(".env", ".envrc", ".mcp.json", ".vscode"))
    assert unwatched(tmp_path, then) == (".envrc",)
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode" / "tasks.json").write_text("")
    assert unwatched(tmp_path, then) == (".envrc",)
    (tmp_path / ".vscode" / "tasks.json").write_text("{}")
    assert unwatched(tmp_path, then) == (".envrc", ".vscode")


def test_truncates_a_long_diff_and_counts_the_remaining_lines() -> None:
    found = rewritten("x", Held(), Held(texts={"x": "a\n" * 100}))
    assert (len(found.lines), found.lines[-1]) == (MOST_LINES + 1, "... and 43 more lines: see the file")


def test_unwatched_ignores_the_changes_of_other_worktrees(tmp_path: Path) -> None:
    common = tmp_path / "main" / ".git"
    (common / "worktrees" / "two").mkdir(parents=True)
    (common / "worktrees" / "two" / "HEAD").write_text("ref: refs/heads/two\n")
    own = common / "worktrees" / "one" / "config.worktree"
    assert unwatched(tmp_path, Held(paths=(str(common), str(own)))) == ()
    own.parent.mkdir()
    own.write_text("[core]\n")
    assert unwatched(tmp_path, Held(paths=(str(common), str(own)))) == (str(own),)


def test_unwatched_includes_the_git_file_of_a_worktree(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")
    path = str(tmp_path / ".git")
    assert unwatched(tmp_path, Held(paths=(path,))) == (path,)
