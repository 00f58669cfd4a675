import os
from pathlib import Path, PurePosixPath

import pytest

from agent_sandbox.features.protect import protected
from agent_sandbox.features.protect.protected import (
    BEFORE,
    NOT_SAID,
    PINNED,
    Protection,
    candidates,
    find_protected,
    load_table,
    with_pins,
)
from agent_sandbox.host.git import repositories
from agent_sandbox.host.git.git_config import Patience
from agent_sandbox.host.git.worktree import Outside
from agent_sandbox.problems import UserError
from agent_sandbox.stack.recorded import Access
from agent_sandbox.stack.workspace import Protected
from repositories import bare, repository, worktree
from table_tests import each

MADE = ["read .devcontainer"]  # by `init`


def found(project: Path) -> list[str]:
    return [
        f"{one.access} {one.path}" for one in find_protected(project).paths if f"{one.access} {one.path}" not in MADE
    ]


def make(project: Path, *paths: str) -> None:
    for path in paths:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("")


def test_every_row_of_the_table_gives_a_reason() -> None:
    assert {row.path for rows in load_table().values() for row in rows if len(row.why) < 15} == set()


def test_the_table_has_no_duplicate_rows() -> None:
    for rows in load_table().values():
        assert len(rows) == len({row.path for row in rows})


def test_always_protects_the_files_that_init_writes(tmp_path: Path) -> None:
    made = find_protected(tmp_path, written={".env"}).paths
    assert [f"{one.access} {one.path}" for one in made] == [*MADE, "read .env"]


def test_a_missing_env_that_init_does_not_write_is_not_protected(tmp_path: Path) -> None:
    assert [one.path for one in find_protected(tmp_path).paths] == [".devcontainer"]
    assert candidates(tmp_path).rows == find_protected(tmp_path).paths


@each(("number", "row"), list(enumerate(row.path for row in load_table()["workspace"] if not row.always)))
def test_protects_each_existing_path_of_the_table(tmp_path: Path, number: int, row: str) -> None:
    project = tmp_path / str(number)
    path = row.replace("*", "app")
    make(project, path)
    pins = [f"pinned {parent}" for parent in Path(path).parents if str(parent).startswith(".") and parent.parts]
    assert found(project) == sorted([*pins, f"read {path}"], key=lambda said: said.split()[1])


@each("row", [row.path for rows in load_table().values() for row in rows])
def test_each_row_is_a_plain_path_without_special_characters_except_stars(row: str) -> None:
    assert row == str(PurePosixPath(row))
    assert not set(row) & set("?[]{}\\")
    assert "*" not in row.split("/")


@each("row", [row.path for row in load_table()["workspace"]])
def test_no_row_is_covered_by_another_row(row: str) -> None:
    path = Path(row.replace("*", "app"))
    others = [other.path for other in load_table()["workspace"] if other.path != row]
    assert [other for other in others if len(Path(other).parts) == len(path.parts) and path.match(other)] == []


# Names that tools document; they were not protected while the table listed each name separately.
DOCUMENTED = """
.lefthook.yml .lefthook.yaml .lefthook.toml .lefthook.json .lefthook.jsonc .lefthook-local.yml lefthook.yaml
lefthook.toml lefthook.json lefthook-local.toml .lefthook-local/pre-commit/x .config/lefthook.yml
.config/lefthook-local.json prek.toml .pre-commit-config.yml captainhook.json captainhook.config.json .rusty-hook.toml
grumphp.yml grumphp.yaml grumphp.yml.dist .huskyrc .huskyrc.js .huskyrc.json husky.config.js .lintstagedrc
.lintstagedrc.js lint-staged.config.mjs .local-overcommit.yml .git-hooks/pre_commit/x.rb hk.pkl hk.local.pkl
.config/hk.pkl commitlint.config.js .commitlintrc.cjs .gitlint .trunk/trunk.yaml .lazygit.yml
.vimrc .gvimrc _vimrc _gvimrc .lvimrc .nvimrc .nvim/init.lua .lazy.lua .vim/coc-settings.json .neoconf.json
.helix/languages.toml .helix/config.toml .dir-locals-2.el app.sublime-project .lite_project.lua .Rprofile
.vs/tasks.vs.json .project .externalToolBuilders/x.launch .theia/tasks.json .nova/Tasks/x.json
.envrc.local .direnv/flake-profile.rc .autoenv.zsh .rvmrc .tool-versions .shadowenv.d/000_default.lisp
mise/config.toml mise/config.local.toml mise/conf.d/x.toml mise.local.toml mise.ci.toml mise.ci.local.toml mise.lock
.mise.local.toml .mise.ci.toml .miserc.toml .mise/config.toml .mise/conf.d/x.toml .config/mise.toml .config/mise.ci.toml
.config/mise/config.toml .config/mise/conf.d/x.toml .config/miserc.toml .rtx.toml
.hg/hgrc .hg/hgrc-not-shared .hg/sharedpath .sl/config .jj/repo/config.toml .jj/repo/store/git_target
.opencode/opencode.jsonc .opencode/plugin/x.js .opencode/command/x.md .opencode/package.json opencode.jsonc
.kilocode/mcp.json .kilo/kilo.jsonc kilo.jsonc .kilocodemodes .continue/mcpServers/x.yaml .continue/config.yaml
.continuerc.json .cursor/cli.json .cursor/hooks.json .cursor/environment.json .windsurf/hooks.json
.gemini/extensions/x/gemini-extension.json .gemini/hooks/x.sh .gemini/sandbox.Dockerfile .gemini/sandbox-macos-x.sb
.qwen/.env .qwen/settings.json .clinerules/hooks/PreToolUse .cline/hooks/x .roo/mcp.json .roo/tools/x.ts .roomodes
.aider.conf.yml .aider.model.settings.yml .crush/crush.json .crushrc .kiro/agents/x.json .kiro/hooks/x.kiro.hook
.amazonq/default.json .amazonq/cli-agents/x.json .factory/mcp.json .factory/hooks.json .factory/droids/x.md
.augment/settings.json .junie/mcp/mcp.json .trae/mcp.json .amp/settings.json .agents/skills/x/SKILL.md
.github/agents/x.agent.md .github/skills/x/SKILL.md .github/lsp.json .claude/launch.json
""".split()  # noqa: SIM905 - 130 names in quotes are harder to read


@each(("number", "path"), list(enumerate(DOCUMENTED)))
def test_protects_names_that_tools_document(tmp_path: Path, number: int, path: str) -> None:
    project = tmp_path / str(number)
    make(project, path)
    above = {f"read {one}" for one in (path, *map(str, Path(path).parents))}
    assert above & set(found(project))


@each(("number", "path"), list(enumerate([".github/workflows/ci.yml", ".claude/worktrees/x/app.py", ".kiro/specs/x.md",
    ".cursor/rules/x.mdc", ".venv/bin/python", ".yarn/plugins/x.cjs", ".aider.chat.history.md", ".env.example",
    "mise/main.go", "hooks/x", "agents/x.py", "package.json", "Makefile"])))  # fmt: skip
def test_does_not_protect_files_that_the_agent_works_on(tmp_path: Path, number: int, path: str) -> None:
    project = tmp_path / str(number)
    make(project, path)
    assert found(project) == []


def test_protects_a_directory_that_matches_a_pattern_as_a_whole(tmp_path: Path) -> None:
    make(tmp_path, ".config/mise/tasks/x", ".lefthook-local/pre-commit/x")
    assert found(tmp_path) == ["pinned .config", "read .config/mise", "read .lefthook-local"]


def test_protects_names_in_another_case_by_their_name_on_disk(tmp_path: Path) -> None:
    make(tmp_path, ".ENVRC", "Lefthook.yml", ".VSCode/tasks.json", ".Claude/Settings.JSON", ".v\u017fcode/tasks.json")
    assert found(tmp_path) == [
        "pinned .Claude", "read .Claude/Settings.JSON", "read .ENVRC", "read .VSCode", "read .v\u017fcode",
        "read Lefthook.yml",
    ]  # fmt: skip


def test_env_is_always_protected_although_the_name_exists_in_another_case(tmp_path: Path) -> None:
    (tmp_path / ".ENV").write_text("")
    made = {one.path: one.always for one in find_protected(tmp_path, written={".env"}).paths}
    assert made == {".devcontainer": True, ".env": True, ".ENV": False}


def test_does_not_mount_links_that_match_a_pattern_but_lists_them_as_candidates(tmp_path: Path) -> None:
    (tmp_path / "secret" / "mcp").mkdir(parents=True)
    (tmp_path / ".new-agent").symlink_to("secret")
    (tmp_path / ".lefthook.toml").symlink_to("/elsewhere")
    assert found(tmp_path) == []
    assert {".new-agent/mcp", ".lefthook.toml"} <= {one.path for one in candidates(tmp_path).rows}


@each("name", ["a b", "a:b", "a$b", "a\\b", "a'b", 'a"b', "a#b", "a*b", "a[b]", "é", "-a"])
def test_protects_names_with_unusual_characters(tmp_path: Path, name: str) -> None:
    make(tmp_path / name, f"{name}.code-workspace", f".{name}/mcp.json")
    repository(tmp_path / name / name)
    paths = [f"pinned .{name}", f"read .{name}/mcp.json", f"read {name}.code-workspace"]
    inner = [f"pinned {name}/.git", f"read {name}/.git/config", f"read {name}/.git/hooks"]
    assert set(found(tmp_path / name)) == {*paths, *inner}


def test_pins_the_git_directory_and_protects_its_config_and_hooks(tmp_path: Path) -> None:
    repository(tmp_path)
    assert found(tmp_path) == ["pinned .git", "read .git/config", "read .git/hooks"]
    assert next(one.why for one in find_protected(tmp_path).paths if one.path == ".git") == PINNED


def test_protects_the_missing_hooks_directory_of_a_repository(tmp_path: Path) -> None:
    (repository(tmp_path) / "hooks").rmdir()
    assert "read .git/hooks" in found(tmp_path)


def test_protects_only_existing_paths_of_a_bare_repository(tmp_path: Path) -> None:
    make(bare(tmp_path / "fixtures" / "one.git"), "config")
    assert found(tmp_path) == ["read fixtures/one.git/config"]


def test_protects_the_git_directories_of_submodules_and_worktrees(tmp_path: Path) -> None:
    git = repository(tmp_path)
    make(bare(git / "modules" / "libs" / "one"), "config")
    make(git / "worktrees" / "feature", "HEAD", "commondir", "gitdir", "index")
    make(tmp_path, "libs/one/.git")
    assert found(tmp_path) == [
        "pinned .git",
        "read .git/config",
        "read .git/hooks",
        "pinned .git/modules",
        "pinned .git/modules/libs",
        "pinned .git/modules/libs/one",
        "read .git/modules/libs/one/config",
        "read .git/modules/libs/one/hooks",
        "pinned .git/worktrees",
        "pinned .git/worktrees/feature",
        "read .git/worktrees/feature/commondir",
        "read .git/worktrees/feature/gitdir",
        "read libs/one/.git",
    ]


def test_protects_the_git_file_of_a_worktree(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /elsewhere/.git/worktrees/one\n")
    assert found(tmp_path) == ["read .git"]


def test_protects_a_nested_repository(tmp_path: Path) -> None:
    repository(tmp_path / "vendor" / "one")
    assert found(tmp_path) == ["pinned vendor/one/.git", "read vendor/one/.git/config", "read vendor/one/.git/hooks"]


def test_protects_paths_that_git_settings_name(tmp_path: Path) -> None:
    git = repository(tmp_path)
    git.joinpath("config").write_text("[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ../team.gitconfig\n")
    make(tmp_path, "tools/hooks/pre-commit", "tools/other")
    (tmp_path / "team.gitconfig").write_text("[user]\n\tname = x\n")
    assert found(tmp_path)[-2:] == ["read team.gitconfig", "read tools/hooks"]


def test_raises_if_git_does_not_report_its_settings_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protected, "SECONDS_TO_PROTECT", 0.0)
    repository(tmp_path)
    with pytest.raises(UserError) as refused:
        find_protected(tmp_path)
    assert str(refused.value) == (
        ".git: git did not report its settings in time, so the programs that they name could not be protected; "
        "find out what `git config --list` waits for there, perhaps a named pipe among the included files"
    )
    told = [one.why for one in candidates(tmp_path, patience=Patience(0.0)).rows if one.path == ".git"]
    assert told == [NOT_SAID]


def test_does_not_mount_links_but_lists_them_as_candidates(tmp_path: Path) -> None:
    secret, project = tmp_path / "secret", tmp_path / "project"
    make(secret, "hooks/x", "settings.json")
    project.mkdir()
    for name in (".vscode", ".git", ".claude"):
        (project / name).symlink_to(secret)
    assert found(project) == []
    assert {".vscode", ".git", ".claude/settings.json"} <= {one.path for one in candidates(project).rows}


def test_does_not_protect_hooks_that_are_a_link(tmp_path: Path) -> None:
    git = repository(tmp_path)
    (git / "hooks").rmdir()
    (git / "hooks").symlink_to("/elsewhere")
    assert found(tmp_path) == ["pinned .git", "read .git/config"]


# A line feed, a zero-width space, a no-break space, a direction override, a tag, a byte that is not UTF-8.
UNSEEN = {
    "\n": "\\n",
    "\u200b": "\\u200b",
    "\xa0": "\\xa0",
    "\u202e": "\\u202e",
    "\U000e0041": "\\U000e0041",
    "\udcff": "\\xff",
}


@pytest.mark.parametrize("sign", UNSEEN)
@pytest.mark.parametrize("where", ["docs{}", ".git/modules/{}", "a/{}b/c"])
def test_rejects_a_repository_with_an_unprintable_name(tmp_path: Path, sign: str, where: str) -> None:
    place = repository(tmp_path / where.format(sign))
    path = str(place.relative_to(tmp_path))
    shown = where.removesuffix("/c").format(UNSEEN[sign])
    with pytest.raises(UserError) as refused:
        find_protected(tmp_path)
    assert str(refused.value) == (
        f"{shown}: this name is not printable, so nothing in it can be protected: "
        f"{where.format(UNSEEN[sign])}/.git/hooks (programs that git on the host runs); "
        "rename it, or remove it if it is not yours; in a shell, write the name as $'...'"
    )
    assert f"{path}/config" in {one.path for one in candidates(tmp_path).rows}


@pytest.mark.parametrize("name", ["{}.code-workspace", "tools/{}hooks"])
def test_rejects_any_protected_path_with_an_unprintable_name(tmp_path: Path, name: str) -> None:
    (repository(tmp_path) / "config").write_text("[core]\n\thooksPath = tools/\u200bhooks\n")
    make(tmp_path, name.format("\u200b"))
    with pytest.raises(UserError) as refused:
        find_protected(tmp_path)
    (problem,) = refused.value.problems
    assert problem.where == name.format("\\u200b")


def test_protects_names_in_other_alphabets(tmp_path: Path) -> None:
    repository(tmp_path / "öffentlich 公開")
    assert "read öffentlich 公開/.git/config" in found(tmp_path)


def test_keeps_protecting_existing_paths_that_the_search_misses(tmp_path: Path) -> None:
    make(tmp_path, "tools/hooks/x", ".git/modules/fe/config", ".vscode/tasks.json")
    before = ("tools/hooks", ".git/modules/fe/config", ".vscode", ".vscode/tasks.json", "gone")
    protection = find_protected(tmp_path, before=before)
    assert {"tools/hooks", ".git/modules/fe/config", ".vscode"} <= {one.path for one in protection.paths}
    assert (protection.kept, protection.gone) == ((".git/modules/fe/config", "tools/hooks"), ("gone",))
    assert [one.why for one in protection.paths if one.path == "tools/hooks"] == [BEFORE]
    assert [one.access for one in protection.paths if one.path == ".git/modules/fe"] == [Access.PINNED]


def test_does_not_keep_protecting_a_path_that_the_user_unprotects(tmp_path: Path) -> None:
    make(tmp_path, "tools/hooks/x", "other", ".vscode/tasks.json")
    protection = find_protected(
        tmp_path, before=("tools/hooks", "other", ".vscode"), unprotect={"tools/hooks", ".vscode"}
    )
    assert protection.kept == ("other",)
    # Paths that the search finds stay protected.
    assert [f"{one.access} {one.path}" for one in protection.paths] == [*MADE, "read .vscode", "read other"]


@pytest.mark.parametrize("what", ["link", "pipe", "link on the way"])
def test_a_protected_path_that_became_a_link_or_a_pipe_is_lost_and_not_gone(tmp_path: Path, what: str) -> None:
    make(tmp_path, "elsewhere/x")
    makers = {
        "link": lambda: (tmp_path / "tools").symlink_to("elsewhere"),
        "pipe": lambda: os.mkfifo(tmp_path / "tools"),
        "link on the way": lambda: (tmp_path / "tools").symlink_to("elsewhere"),
    }
    makers[what]()
    path = "tools/x" if what == "link on the way" else "tools"
    protection = find_protected(tmp_path, before=(path,))
    assert (protection.lost, protection.kept, protection.gone) == ((path,), (), ())
    assert path not in {one.path for one in protection.paths}


def test_protects_submodules_named_with_two_hex_digits(tmp_path: Path) -> None:
    git = repository(tmp_path)
    for path in ("modules/fe", "modules/a/modules/be", "worktrees/de/modules/ad"):
        make(bare(git / path), "config")
    make(tmp_path, "fe/.git")
    assert {
        "read .git/modules/fe/config",
        "read .git/modules/fe/hooks",
        "read .git/modules/a/modules/be/hooks",
        "read .git/worktrees/de/modules/ad/hooks",
        "read fe/.git",
    } <= set(found(tmp_path))


def test_protects_paths_that_the_settings_of_any_repository_name(tmp_path: Path) -> None:
    git = repository(tmp_path)
    for place in (git / "modules" / "one", tmp_path / "mirror"):
        bare(place)
        (place / "config").write_text(f"[include]\n\tpath = {tmp_path}/{place.name}.inc\n[core]\n\thooksPath = mine\n")
        make(tmp_path, f"{place.name}.inc")
        (place / "mine").mkdir()
    assert {"read one.inc", "read mirror.inc", "read mirror/mine", "read .git/modules/one/mine"} <= set(found(tmp_path))


def test_reports_directories_that_were_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repositories, "MAX_FOLDERS", 2)
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    assert find_protected(tmp_path).unsearched == ("b", "c")


def test_omits_paths_inside_a_read_only_directory() -> None:
    outer, inner = Protected(path=".vscode", why="x"), Protected(path=".vscode/mcp.json", why="y")
    assert with_pins([inner, outer]) == (outer,)


def test_directories_without_a_dot_are_not_pinned() -> None:
    one = Protected(path="libs/.config/x/y", why="x")
    pins = [Protected(path=path, access=Access.PINNED, why=PINNED) for path in ("libs/.config", "libs/.config/x")]
    assert with_pins([one, one]) == (*pins, one)


def test_hooks_of_a_shared_directory_without_a_head_are_protected(tmp_path: Path) -> None:
    make(tmp_path, "sub/.git/HEAD", "sub/common/config", "sub/common/hooks/pre-commit")
    (tmp_path / "sub" / ".git" / "commondir").write_text("../common\n")
    for name in ("objects", "refs"):
        (tmp_path / "sub" / "common" / name).mkdir()
    assert {"read sub/.git/commondir", "read sub/common/config", "read sub/common/hooks"} <= set(found(tmp_path))


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("sub/.git", "gitdir: {}\n"),
        (".git/config", "[core]\n\tworktree = {}\n\thooksPath = {}\n[include]\n\tpath = {}\n"),
        (".git/commondir", "{}\n"),
        (".git/objects/info/alternates", "{}/objects\n"),
        (".gitmodules", '[submodule "{}"]\n\tpath = {}\n'),
    ],
)
def test_a_name_that_is_too_long_for_a_file_system_does_not_stop_the_search(
    tmp_path: Path, file: str, text: str
) -> None:
    repository(tmp_path)
    make(tmp_path, file)
    (tmp_path / file).write_text(text.replace("{}", "a" * 300))
    assert "read .git/hooks" in found(tmp_path)


def outside(tmp_path: Path) -> Outside:
    """Make a worktree of a repository with submodules, settings that name hooks, and another worktree."""
    (tmp_path / "main").mkdir()
    common = repository(tmp_path / "main")
    (common / "config").write_text("[core]\n\thooksPath = .git/own-hooks\n[include]\n\tpath = more\n")
    (common / "own-hooks").mkdir()
    (common / "more").write_text("")
    worktree(tmp_path / "other", common, "other")
    for module in ("modules/lib", "worktrees/feature/modules/lib"):
        (bare(common / module) / "config").write_text("")
    own = worktree(tmp_path / "feature", common)
    (own / "config.worktree").write_text("")
    return Outside(common=common, name="feature")


def outer(tmp_path: Path, found: Protection) -> list[str]:
    common = f"{tmp_path}/main/.git"
    return [f"{one.access} {one.path.removeprefix(common)}" for one in found.paths if one.path.startswith(common)]


SHARED = ["read ", "pinned /logs", "pinned /objects", "pinned /refs"]
OWN = [
    *("pinned ", "read /commondir", "read /config.worktree", "read /gitdir"),
    *("pinned /modules", "pinned /modules/lib", "read /modules/lib/config", "read /modules/lib/hooks"),
]


def test_the_agent_can_write_only_data_and_the_worktrees_part_of_an_outside_repository(tmp_path: Path) -> None:
    found = find_protected(tmp_path / "feature", outside=outside(tmp_path))
    own = [line.replace(" ", " /worktrees/feature", 1) for line in OWN]
    assert outer(tmp_path, found) == [*SHARED, *own]
    assert f"{tmp_path}/feature/.git" in {one.path for one in found.paths}
    made = {one.path for one in found.paths if one.always and not Path(one.path).exists()}
    assert f"{tmp_path}/main/.git/worktrees/feature/modules/lib/hooks" in made


def test_optional_data_of_an_outside_repository_is_writable_only_if_it_is_a_directory(tmp_path: Path) -> None:
    place = outside(tmp_path)
    (place.common / "lfs").mkdir()
    (place.common / "rr-cache").symlink_to("objects")
    found = find_protected(tmp_path / "feature", outside=place)
    assert outer(tmp_path, found)[:5] == ["read ", "pinned /logs", "pinned /objects", "pinned /refs", "pinned /lfs"]
    assert f"{place.common}/rr-cache" not in {one.path for one in found.paths}
    made = {one.path for one in found.paths if one.always and not Path(one.path).exists()}
    assert f"{place.common}/logs" in made


def test_protects_a_file_in_the_data_of_an_outside_repository_that_settings_name(tmp_path: Path) -> None:
    place = outside(tmp_path)
    (place.common / "config").write_text("[include]\n\tpath = objects/more\n")
    (place.common / "objects" / "more").write_text("")
    found = find_protected(tmp_path / "feature", outside=place)
    assert f"read {place.common}/objects/more" in {f"{one.access} {one.path}" for one in found.paths}


def test_does_not_mount_an_outside_repository_that_is_not_used(tmp_path: Path) -> None:
    outside(tmp_path)
    assert outer(tmp_path, find_protected(tmp_path / "feature")) == []


def test_keeps_protecting_paths_of_an_outside_repository_while_it_is_used(tmp_path: Path) -> None:
    place, common = outside(tmp_path), tmp_path / "main" / ".git"
    names = ("gone", "logs/gone", "objects/stray", "worktrees/feature/stray", "worktrees/other/HEAD")
    before = [f"{common}/{name}" for name in names]
    before += ["/elsewhere/config", str(tmp_path / "other" / ".git"), str(tmp_path / "feature" / ".git")]
    for name in ("objects/stray", "worktrees/feature/stray"):
        (common / name).write_text("")
    found = find_protected(tmp_path / "feature", before=before, outside=place)
    assert found.kept == (f"{common}/objects/stray", f"{common}/worktrees/feature/stray")
    assert (found.gone, found.lost) == ((f"{common}/logs/gone",), ())
    assert {*found.kept} <= {one.path for one in found.paths if one.access is Access.READ}
    assert find_protected(tmp_path / "feature", before=before, unprotect=found.kept, outside=place).kept == ()
    assert find_protected(tmp_path / "feature", before=before).kept == ()


def test_raises_if_the_settings_of_an_outside_repository_block_git(tmp_path: Path) -> None:
    place = outside(tmp_path)
    os.mkfifo(place.common / "pipe")
    (place.common / "config").write_text("[include]\n\tpath = pipe\n")
    with pytest.raises(UserError, match="did not report its settings in time"):
        find_protected(tmp_path / "feature", outside=place)
