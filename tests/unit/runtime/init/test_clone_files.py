"""Checked-in files are the same everywhere, and a clone makes its other files from them."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.render.formats.header import stamped
from agent_sandbox.render.paths import DEVCONTAINER, IGNORE, OF_THIS_CLONE, PATHS, PROJECT_FILE, SHARED, STACK, VALUES
from agent_sandbox.render.reconcile import OnConflict
from agent_sandbox.runtime.init.clone_files import NO_PROJECT_FILE, NO_PROJECT_FILE_HINT, plan_clone_files
from agent_sandbox.runtime.init.initialise import InitOptions, prepare
from agent_sandbox.runtime.project.installed import read_project, require_own
from agent_sandbox.stack.recorded import Ide

CHECKED_IN = tuple(path for path in PATHS if path not in OF_THIS_CLONE)


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
