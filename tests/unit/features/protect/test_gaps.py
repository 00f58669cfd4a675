from pathlib import Path

import pytest

from agent_sandbox.features.protect.gaps import LINK, MADE, TWO_NAMES, Gaps, Unprotected, look_over
from agent_sandbox.features.protect.protected import UNPRINTABLE
from agent_sandbox.host.git import repositories
from repositories import bare, repository, worktree_project


def compose(project: Path, *mounted: str) -> None:
    volumes = ", ".join(f'{{target: "/workspace/{path}", read_only: true}}' for path in (".devcontainer", *mounted))
    (project / ".devcontainer").mkdir(exist_ok=True)
    (project / ".devcontainer" / "docker-compose.yml").write_text(f"services: {{agent: {{volumes: [{volumes}]}}}}\n")


def found(project: Path) -> dict[str, str]:
    return {one.path: one.because for one in look_over(project).unprotected}


def test_finds_no_gaps_right_after_init(tmp_path: Path) -> None:
    repository(tmp_path)
    compose(tmp_path, ".git/config", ".git/hooks")
    assert found(tmp_path) == {}


def test_reports_a_new_file_and_the_program_that_acts_on_the_file(tmp_path: Path) -> None:
    compose(tmp_path)
    (tmp_path / ".envrc").write_text("")
    why = "runs when a shell on the host enters the directory, by direnv"
    assert look_over(tmp_path).unprotected == (Unprotected(path=".envrc", why=why, because=MADE),)


def test_a_new_file_is_reported_although_git_ignores_it(tmp_path: Path) -> None:
    repository(tmp_path)
    compose(tmp_path, ".git/config", ".git/hooks")
    (tmp_path / ".envrc").write_text("")
    (tmp_path / ".gitignore").write_text("*\n")
    (tmp_path / ".git" / "info").mkdir(exist_ok=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("*\n")
    assert found(tmp_path)[".envrc"] == MADE


@pytest.mark.parametrize(
    "path",
    [".lefthook.toml", "mise.ci.toml", ".config/mise.ci.toml", "x 1.code-workspace", ".new-agent/mcp.json", ".ENVRC"],
)
def test_reports_new_files_that_match_a_pattern(tmp_path: Path, path: str) -> None:
    compose(tmp_path)
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text("")
    assert found(tmp_path) == {path: MADE}
    compose(tmp_path, path)
    assert found(tmp_path) == {}


def test_reports_new_repositories_and_new_paths_in_the_git_directory(tmp_path: Path) -> None:
    compose(tmp_path, ".git/config", ".git/hooks")
    (repository(tmp_path) / "commondir").write_text("/workspace/elsewhere")
    for folder in ("branches", "remotes"):
        (tmp_path / ".git" / folder).mkdir()
        (tmp_path / ".git" / folder / "origin").write_text("URL: ./elsewhere")
    repository(tmp_path / "nested")
    made = (".git/branches", ".git/commondir", ".git/remotes")
    assert found(tmp_path) == dict.fromkeys((*made, "nested/.git/config", "nested/.git/hooks"), MADE)


def test_reports_links_and_protected_paths_behind_links(tmp_path: Path) -> None:
    compose(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "settings.json").write_text("")
    (tmp_path / ".claude").symlink_to("elsewhere")
    (tmp_path / ".vscode").symlink_to("gone")
    assert found(tmp_path) == {".claude/settings.json": LINK, ".vscode": LINK}


def test_reports_a_protected_file_with_a_second_hard_link(tmp_path: Path) -> None:
    compose(tmp_path, ".envrc")
    (tmp_path / ".envrc").write_text("")
    assert found(tmp_path) == {}
    (tmp_path / "other").hardlink_to(tmp_path / ".envrc")
    assert found(tmp_path) == {".envrc": TWO_NAMES}


def test_recognises_protected_paths_with_dollars_as_compose_escapes_them(tmp_path: Path) -> None:
    repository(tmp_path / "a$b" / "$$HOME")
    compose(tmp_path, "a$$b/$$$$HOME/.git/config", "a$$b/$$$$HOME/.git/hooks")
    assert found(tmp_path) == {}


def test_reports_unprintable_names_in_escaped_form(tmp_path: Path) -> None:
    compose(tmp_path)
    (repository(tmp_path / "docs\u200b") / "hooks").rmdir()
    repository(tmp_path / "\udcff")
    expected = ["\\xff/.git/config", "\\xff/.git/hooks", "docs\\u200b/.git/config"]
    assert found(tmp_path) == dict.fromkeys(expected, UNPRINTABLE)


def test_reports_directories_that_were_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compose(tmp_path)
    for name in ("a", "b\u200b"):
        (tmp_path / name).mkdir()
    assert look_over(tmp_path) == Gaps()
    monkeypatch.setattr(repositories, "MAX_FOLDERS", 2)
    assert look_over(tmp_path).unsearched == ("a", "b\\u200b")


def submodule_config(common: Path) -> str:
    module = bare(common / "worktrees" / "feature" / "modules" / "lib")
    (module / "config").write_text("")
    return str(module / "config")


def test_reports_files_created_in_the_git_directory_of_a_worktree(tmp_path: Path) -> None:
    project, common = worktree_project(tmp_path)
    assert look_over(project) == Gaps()
    (common / "commondir").write_text(".\n")  # the directory is read-only, so this is not the agent's
    (common / "worktrees" / "other").mkdir()
    made = submodule_config(common)
    assert found(project) == {made: MADE}


@pytest.mark.parametrize("name", ["worktrees/feature/HEAD", "HEAD", "objects", "refs"])
def test_reports_gaps_although_the_agent_broke_the_mounted_repository(tmp_path: Path, name: str) -> None:
    project, common = worktree_project(tmp_path)
    made = submodule_config(common)
    (common / name).rename(common / f"{name}-moved")
    (common / name).symlink_to(f"{Path(name).name}-moved")
    assert found(project) == {made: MADE}


def test_reports_no_gaps_in_an_outside_repository_that_is_not_mounted(tmp_path: Path) -> None:
    project, common = worktree_project(tmp_path)
    compose(project, ".git")
    (common / "commondir").write_text(".\n")
    assert look_over(project) == Gaps()
