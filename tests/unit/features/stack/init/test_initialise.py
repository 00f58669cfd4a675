import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent_sandbox.features.protect.snapshot import record
from agent_sandbox.features.stack.init.initialise import (
    NO_PROJECT_FILE,
    NO_PROJECT_FILE_HINT,
    InitOptions,
    agents_of,
    plan_clone_files,
    prepare,
)
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import read_project, require_own
from agent_sandbox.project.render.formats.header import stamped
from agent_sandbox.project.render.paths import (
    DEVCONTAINER,
    DOTENV,
    IGNORE,
    OF_THIS_CLONE,
    PATHS,
    POLICY,
    PROJECT_FILE,
    SHARED,
    STACK,
    VALUES,
)
from agent_sandbox.project.render.reconcile import OnConflict, Verdict
from agent_sandbox.stack.limits import DEFAULT, GIB, kept, limit_texts
from agent_sandbox.stack.recorded import Ide
from init_project import init_options
from repositories import bare, repository, worktree

CHECKED_IN = tuple(path for path in PATHS if path not in OF_THIS_CLONE)


def test_prepare_writes_nothing(tmp_path: Path) -> None:
    prepared = prepare(init_options(tmp_path), {})
    assert {change.verdict for change in prepared.changes} == {Verdict.WRITTEN}
    assert list(tmp_path.iterdir()) == []


def test_a_second_init_changes_nothing(tmp_path: Path) -> None:
    prepare(init_options(tmp_path), {}).write()
    assert {change.verdict for change in prepare(init_options(tmp_path), {}).changes} == {Verdict.UNCHANGED}


def test_the_proxy_can_read_the_policy_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        prepare(init_options(tmp_path), {}).write()
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE((tmp_path / path).stat().st_mode) for path in (".devcontainer", POLICY, STACK, DOTENV)}
    assert modes == {".devcontainer": 0o755, POLICY: 0o644, STACK: 0o600, DOTENV: 0o600}


def test_creates_the_hooks_directory_if_a_repository_has_none(tmp_path: Path) -> None:
    (repository(tmp_path) / "hooks").rmdir()
    prepare(init_options(tmp_path), {}).write()
    assert (tmp_path / ".git" / "hooks").is_dir()


def submodule(project: Path) -> Path:
    """Make a repository with one submodule, and return the git directory of the submodule."""
    module = bare(repository(project) / "modules" / "fe")
    (module / "config").write_text("")
    return module


def protected(project: Path, *, unprotect: frozenset[str] = frozenset()) -> set[str]:
    return {one.path for one in prepare(replace(init_options(project), unprotect=unprotect), {}).workspace.protected}


def test_keeps_protecting_paths_that_the_next_search_does_not_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submodule(tmp_path)
    (tmp_path / "nested" / "deep").mkdir(parents=True)
    repository(tmp_path / "nested" / "deep")
    prepare(init_options(tmp_path), {}).write()
    monkeypatch.setattr("agent_sandbox.host.git.repositories.MAX_FOLDERS", 1)
    prepared = prepare(init_options(tmp_path), {})
    paths = {one.path for one in prepared.workspace.protected}
    assert {".git/modules/fe/hooks", ".git/modules/fe/config", "nested/deep/.git/config"} <= paths
    assert [change.verdict for change in prepared.changes if change.path == STACK] != [Verdict.KEPT]
    assert prepared.notes[0] == (
        ".git/modules/fe/config, .git/modules/fe/hooks, nested/deep/.git/config, nested/deep/.git/hooks: "
        "still protected, though this search found no reference to it"
    )
    assert prepared.notes[1].startswith(".git/modules, .devcontainer, nested, .git/info: not searched for repositories")


@pytest.mark.parametrize("text", ["", "services: [\n", "services: {}\n"])
def test_keeps_protecting_paths_of_the_last_start_whatever_the_compose_file_contains(tmp_path: Path, text: str) -> None:
    environ, project = {"HOME": str(tmp_path / "home")}, tmp_path / "app"
    (project / "tools" / "hooks").mkdir(parents=True)
    git = repository(project)
    (git / "config").write_text("[core]\n\thooksPath = tools/hooks\n")
    prepare(init_options(project), environ).write()
    record(project, environ)
    (git / "config").write_text("")
    (project / STACK).write_text(text)
    forced = prepare(replace(init_options(project), on_conflict=OnConflict.REPLACE), environ)
    assert "tools/hooks" in {one.path for one in forced.workspace.protected}


def test_the_user_can_unprotect_a_path(tmp_path: Path) -> None:
    module = submodule(tmp_path)
    prepare(init_options(tmp_path), {}).write()
    (module / "HEAD").unlink()
    assert {".git/modules/fe/config", ".git/modules/fe/hooks"} <= protected(tmp_path)
    unprotect = frozenset({".git/modules/fe/config"})
    assert protected(tmp_path) - protected(tmp_path, unprotect=unprotect) == unprotect
    (*_, note) = prepare(replace(init_options(tmp_path), unprotect=unprotect), {}).notes
    assert note == ".git/modules/fe/config: no longer protected: the agent can write it after the next start"


def test_drops_a_protected_path_that_became_a_link_only_if_the_user_confirms(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    prepare(init_options(tmp_path), {}).write()
    (tmp_path / ".vscode").rmdir()
    (tmp_path / ".vscode").symlink_to("elsewhere")
    prepared = prepare(init_options(tmp_path), {})
    before = (tmp_path / STACK).read_text()
    with pytest.raises(UserError) as refused:
        prepared.write()
    assert str(refused.value) == (
        ".vscode: was protected and is now a link or a pipe, which cannot be protected; "
        "replace it with a file or a directory, or remove it; or run agent-sandbox init at a terminal and confirm"
    )
    assert (tmp_path / STACK).read_text() == before
    prepare(replace(init_options(tmp_path), unprotect=frozenset({".vscode"})), {}).write()
    assert "vscode" not in (tmp_path / STACK).read_text().partition("services:")[2]


def test_paths_with_a_dollar_stay_protected(tmp_path: Path) -> None:
    repository(tmp_path / "a$b" / "$$c")
    prepare(init_options(tmp_path), {}).write()
    prepared = prepare(init_options(tmp_path), {})
    assert (prepared.protection.gone, prepared.protection.kept) == ((), ())


def test_the_title_defaults_to_the_name_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "a\nb").mkdir()
    assert prepare(init_options(tmp_path / "a\nb"), {}).workspace.title == "a-b"
    assert prepare(init_options(tmp_path, title="Mine"), {}).workspace.title == "Mine"


def test_keeps_the_choices_of_an_earlier_init(tmp_path: Path) -> None:
    prepare(init_options(tmp_path, title="Mine", ide=Ide.NONE), {}).write()
    workspace = prepare(init_options(tmp_path), {}).workspace
    assert (workspace.title, workspace.ide) == ("Mine", Ide.NONE)
    assert prepare(init_options(tmp_path, ide=Ide.VSCODE), {}).workspace.ide is Ide.VSCODE


def test_remembers_the_agent_of_an_earlier_init(tmp_path: Path) -> None:
    assert agents_of(tmp_path, {}) == ()
    prepare(init_options(tmp_path), {}).write()
    assert agents_of(tmp_path, {}) == ("claude",)


def test_limits_apply_only_to_the_agent_and_stay_until_they_are_changed(tmp_path: Path) -> None:
    prepare(replace(init_options(tmp_path), limits={"memory": "2g", "cpus": "1.5"}), {}).write()
    prepared = prepare(replace(init_options(tmp_path), limits={"pids": "100"}), {})
    assert kept(prepared.workspace.limits) == {"memory": "2g", "cpus": "1.5", "pids": "100"}
    sizes = {service.name: service.limits.memory for service in prepared.stack.services}
    assert sizes == {"proxy": GIB, "firewall": GIB // 8, "agent": 2 * GIB}
    assert kept(prepare(replace(init_options(tmp_path), limits=limit_texts(DEFAULT)), {}).workspace.limits) == {}


def test_rejects_an_invalid_limit_with_its_option_and_value(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--memory: `much` is not a size"):
        prepare(replace(init_options(tmp_path), limits={"memory": "much"}), {})


def test_a_new_project_opens_in_vs_code(tmp_path: Path) -> None:
    assert prepare(init_options(tmp_path), {}).workspace.ide is Ide.VSCODE


def test_reports_an_edited_file_as_a_conflict(tmp_path: Path) -> None:
    prepared = prepare(init_options(tmp_path), {})
    assert prepared.conflicts == ()
    prepared.write()
    (tmp_path / ".devcontainer" / "docker-compose.yml").write_text("mine\n")
    (conflict,) = prepare(init_options(tmp_path), {}).conflicts
    assert conflict.path == ".devcontainer/docker-compose.yml"


def test_reports_a_compose_file_of_the_projects_own(tmp_path: Path) -> None:
    (tmp_path / "docker-compose.yml").write_text("services: {}\n")
    (note,) = prepare(init_options(tmp_path), {}).notes
    assert note == (
        "`docker compose` in this directory still uses docker-compose.yml; "
        "for the sandbox, use: docker compose --file .devcontainer/docker-compose.yml"
    )


def test_rejects_an_unknown_agent_before_the_project_is_read(tmp_path: Path) -> None:
    unknown = InitOptions(
        agents=("nobody",), path=tmp_path / "gone", title=None, ide=None, on_conflict=OnConflict.KEEP, detect=False
    )
    with pytest.raises(UserError, match="no such agent `nobody`"):
        prepare(unknown, {})


def test_mounts_the_repository_of_a_worktree_at_its_path_and_excludes_dotenv_there(tmp_path: Path) -> None:
    (tmp_path / "main").mkdir()
    common = repository(tmp_path / "main")
    worktree(tmp_path / "feature", common)
    prepared = prepare(init_options(tmp_path / "feature"), {})
    prepared.write()
    place = "it belongs to this directory on this machine"
    assert prepared.notes == (
        f"git works inside on {common}: the agent can only add commits and change branches there",
        f"{common}/info/exclude keeps {DOTENV} out of git: {place}",
    )
    volumes = (tmp_path / "feature" / STACK).read_text()
    mount = "{{type: bind, source: {0}, target: {0}, bind: {{create_host_path: false}}"
    assert f"{mount.format(common)}, read_only: true}}" in volumes
    assert f"{mount.format(common / 'objects')}}}" in volumes
    assert (common / "logs").is_dir()
    assert "/.env\n" in (common / "info" / "exclude").read_text()
    again = prepare(init_options(tmp_path / "feature"), {})
    assert {change.verdict for change in again.changes} == {Verdict.UNCHANGED}
    assert (again.protection.kept, again.protection.gone) == ((), ())


def test_does_not_mount_a_repository_that_contains_the_home_directory(tmp_path: Path) -> None:
    common = bare(tmp_path / "home.git")
    (common / "config").write_text("")
    worktree(tmp_path / "feature", common)
    prepared = prepare(init_options(tmp_path / "feature"), {"HOME": str(common / "me")})
    assert str(common) not in {one.path for one in prepared.workspace.protected}


def made(root: Path, environ: dict[str, str] | None = None, **options: Any) -> Path:  # noqa: ANN401 - those of `init`
    """Run `init` in a directory."""
    root.mkdir(parents=True, exist_ok=True)
    wish = {
        "agents": ("claude",),
        "title": None,
        "ide": None,
        "on_conflict": OnConflict.KEEP,
        "detect": False,
        **options,
    }
    prepare(InitOptions(path=root, **wish), environ or {}).write()
    return root


def cloned(original: Path, clone: Path) -> Path:
    """Copy the files that are checked in."""
    for path in (*CHECKED_IN, PROJECT_FILE):
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        if (original / path).exists():
            shutil.copy(original / path, clone / path)
    return clone


def write_clone_files(root: Path, environ: dict[str, str]) -> tuple[str, ...]:
    planned = plan_clone_files(root, environ)
    if planned:
        planned.write()
    return tuple(planned.texts) if planned else ()


def texts(root: Path, *paths: str) -> dict[str, str]:
    return {path: (root / path).read_text() for path in paths}


def a_machine(home: Path, name: str) -> dict[str, str]:
    """Return the environment of a user who has dotfiles, a policy and an identity."""
    for folder in ("dotfiles", "shell.d"):
        (home / ".config" / "agent-sandbox" / folder).mkdir(parents=True)
    (home / ".gitconfig").write_text(f"[user]\nname = {name}\nemail = {name}@example.com\n")
    return {"HOME": str(home)}


def test_checked_in_files_are_byte_identical_on_two_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = {"ann": tmp_path / "home" / "ann" / "app", "bob": tmp_path / "srv" / "checkouts" / "Other Name"}
    for name, root in machines.items():
        environ = a_machine(tmp_path / f"home-of-{name}", name)
        monkeypatch.setenv("HOME", environ["HOME"])
        root.mkdir(parents=True)
        if name == "bob":
            subprocess.run(["git", "init", "--quiet", root], check=True)
            (root / ".vscode").mkdir()
            (root / ".env").write_text("COMPOSE_FILE=mine.yaml\n")  # only in this clone
        made(root, environ)
    ann, bob = machines.values()
    assert texts(ann, *CHECKED_IN) == texts(bob, *CHECKED_IN)
    assert [path for path in (STACK, VALUES) if texts(ann, path) == texts(bob, path)] == []
    mine = [str(tmp_path), "ann", "app", "10."]
    assert [(path, word) for path in CHECKED_IN for word in mine if f"{word}" in texts(ann, path)[path]] == []


def test_a_clone_gets_its_own_files_and_keeps_the_checked_in_files(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"ide": Ide.NONE, "title": "Our App", "limits": {"memory": "2g"}, "dotenv": False}
    original = made(tmp_path / "a", **chosen)
    clone = cloned(original, tmp_path / "b")
    before = texts(clone, *CHECKED_IN)
    assert write_clone_files(clone, {}) == (STACK, VALUES)
    assert texts(clone, *CHECKED_IN) == before
    text = (clone / STACK).read_text()
    assert all(part in text for part in ("ide: none", 'title: "Our App"', "mem_limit: 2g", "dotenv: false"))
    name = read_project(clone).name
    assert (clone / VALUES).read_text().splitlines()[-1] == f"AGENT_SANDBOX_STACK={name}"
    assert name.startswith("our-app-")
    assert name != read_project(original).name
    assert write_clone_files(clone, {}) == ()


def test_two_clones_share_no_name_address_or_volume(tmp_path: Path) -> None:
    original = made(tmp_path / "app")
    stacks = []
    for name in ("one", "two"):
        clone = cloned(original, tmp_path / name)
        write_clone_files(clone, {})
        stacks.append({word for word in (clone / STACK).read_text().split() if "10." in word or f"{name}-" in word})
    assert stacks[0]
    assert stacks[0].isdisjoint(stacks[1])


def test_pulled_choices_are_applied(tmp_path: Path) -> None:
    original = made(tmp_path / "a")
    clone = cloned(original, tmp_path / "b")
    write_clone_files(clone, {})
    made(original, limits={"memory": "2g"})
    cloned(original, clone)
    assert write_clone_files(clone, {}) == (STACK,)
    assert "mem_limit: 2g" in (clone / STACK).read_text()


def test_refuses_to_write_the_files_of_a_clone_without_its_project_file(tmp_path: Path) -> None:
    original = made(tmp_path / "a", limits={"memory": "2g"})
    (original / PROJECT_FILE).unlink()
    clone = cloned(original, tmp_path / "b")
    with pytest.raises(UserError) as error:
        write_clone_files(clone, {})
    assert str(error.value) == f"{clone / PROJECT_FILE}: {NO_PROJECT_FILE}; {NO_PROJECT_FILE_HINT}"
    assert not (clone / STACK).exists()


def test_an_edited_stack_is_kept(tmp_path: Path) -> None:
    clone = made(tmp_path / "a")
    (clone / STACK).write_text((clone / STACK).read_text() + "# mine\n")
    (clone / VALUES).unlink()
    assert write_clone_files(clone, {}) == (VALUES,)
    assert (clone / STACK).read_text().endswith("# mine\n")


def test_writes_no_files_into_a_moved_clone(tmp_path: Path) -> None:
    made(tmp_path / "a").rename(tmp_path / "b")
    assert write_clone_files(tmp_path / "b", {}) == ()
    with pytest.raises(UserError):
        require_own(read_project(tmp_path / "b"))


@pytest.mark.parametrize("text", ["services: {}\n", "", "[", "x-agent-sandbox: {agent: claude, ide: vscode}\n"])
def test_ignores_a_compose_yaml_that_agent_sandbox_did_not_write(tmp_path: Path, text: str) -> None:
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / SHARED).write_text(text)
    assert write_clone_files(tmp_path, {}) == ()
    assert [path.name for path in (tmp_path / ".devcontainer").iterdir()] == ["compose.yaml"]


@pytest.mark.parametrize(
    "record", ["{}", "{agent: claude, ide: emacs}", "{agent: claude, ide: none, limits: {cpus: 9999}}"]
)
def test_rejects_an_invalid_record_in_compose_yaml(tmp_path: Path, record: str) -> None:
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / SHARED).write_text(stamped(f"x-agent-sandbox: {record}\n", comment="#"))
    with pytest.raises(UserError) as raised:
        write_clone_files(tmp_path, {})
    assert str(raised.value) == (
        f"{tmp_path}/{SHARED}: it names no agent, or a limit that is not valid; "
        "agent-sandbox init AGENT --force writes this file again"
    )


def test_init_migrates_a_project_of_an_earlier_version_and_keeps_its_name(tmp_path: Path) -> None:
    root = made(tmp_path / "app", limits={"memory": "2g"})
    name, stack = read_project(root).name, (root / STACK).read_text()
    for path in (SHARED, IGNORE, VALUES):
        (root / path).unlink()
    (root / ".devcontainer/policy.yaml").write_text("version: 1\n# mine\n")
    made(root)
    assert (read_project(root).name, (root / STACK).read_text()) == (name, stack)
    assert "memory: 2g" in (root / PROJECT_FILE).read_text()
    assert "title" not in (root / SHARED).read_text()
    assert (root / ".devcontainer/policy.yaml").read_text() == "version: 1\n# mine\n"


def test_a_migration_keeps_what_the_user_wrote_into_devcontainer_json(tmp_path: Path) -> None:
    root = made(tmp_path / "app")
    edited = (root / DEVCONTAINER).read_text().replace('"compose.yaml"', '["docker-compose.yml", "db.yml"], "x": 1')
    (root / DEVCONTAINER).write_text(edited)
    (root / SHARED).unlink()
    made(root)
    assert (root / DEVCONTAINER).read_text() == edited.replace('"docker-compose.yml"', '"compose.yaml"')


@pytest.mark.parametrize("path", [".devcontainer/.env", ".devcontainer/.gitignore"])
def test_init_refuses_a_link_in_place_of_a_file_and_writes_nothing(tmp_path: Path, path: str) -> None:
    (tmp_path / "app" / ".devcontainer").mkdir(parents=True)
    target = tmp_path / "target"
    target.write_text("mine\n")
    (tmp_path / "app" / path).symlink_to(target)
    with pytest.raises(UserError):
        made(tmp_path / "app")
    assert target.read_text() == "mine\n"
    assert [file.name for file in (tmp_path / "app" / ".devcontainer").iterdir()] == [Path(path).name]
