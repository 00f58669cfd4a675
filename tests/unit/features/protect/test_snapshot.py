from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.features.protect.snapshot import (
    MOST_BYTES,
    MOST_FILES,
    NOT_ALONE,
    Held,
    is_settings,
    leave_pending,
    protected_paths,
    read_held,
    record,
    recorded,
)
from agent_sandbox.features.protect.snapshot_diff import rewritten
from agent_sandbox.problems import UserError
from agent_sandbox.project.render.formats.header import stamped


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project whose stack protects two paths."""
    folder = tmp_path / "app"
    (folder / ".devcontainer").mkdir(parents=True)
    mounts = ", ".join(f"{{target: /workspace/{path}, read_only: true}}" for path in (".env", ".devcontainer"))
    text = f"services: {{agent: {{volumes: [{mounts}]}}}}\n"
    (folder / ".devcontainer" / "docker-compose.yml").write_text(stamped(text, comment="#"))
    (folder / ".env").write_text("A=1\n")
    return folder


def test_reads_files_and_the_files_in_folders(tmp_path: Path) -> None:
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    (tmp_path / ".git" / "config").write_text("[core]\n\tbare = false\n")
    (tmp_path / ".git" / "hooks" / "pre-commit").write_bytes(b"\xff")
    (tmp_path / ".envrc").symlink_to("/elsewhere")
    (tmp_path / "large").write_bytes(b"a" * (MOST_BYTES + 1))
    got = read_held(tmp_path, [".git/config", ".git/hooks", ".envrc", "large", "missing"])
    assert got.texts == {
        ".git/config": "[core]\n\tbare = false\n",
        ".git/hooks/pre-commit": "\udcff",
        ".envrc": "a link to /elsewhere\n",
        "large": got.texts["large"],
    }
    assert got.texts["large"].startswith("more than 64 KiB, beginning with sha256 ")
    assert got.settings == {".git/config": ("core.bare\nfalse",)}
    assert got.below(".git") == {path: text for path, text in got.texts.items() if path.startswith(".git/")}


def test_reports_settings_that_are_a_link_or_have_a_second_hard_link(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name / ".git").mkdir(parents=True)
        (tmp_path / name / "x").write_text("[core]\n\tbare = false\n")
    (tmp_path / "one" / ".git" / "config").symlink_to("../x")
    (tmp_path / "two" / ".git" / "config").hardlink_to(tmp_path / "two" / "x")
    (tmp_path / "three" / "x").rename(tmp_path / "three" / ".git" / "config")
    paths = [f"{name}/.git/config" for name in ("one", "two", "three")]
    got = read_held(tmp_path, paths)
    assert got.settings == dict(zip(paths, ((NOT_ALONE,), (NOT_ALONE,), ("core.bare\nfalse",)), strict=True))
    assert got.texts[paths[1]] == f"{NOT_ALONE}\n[core]\n\tbare = false\n"
    then = Held(texts=dict.fromkeys(paths, got.texts[paths[2]]), settings=dict.fromkeys(paths, got.settings[paths[2]]))
    assert [rewritten(path, then, got).runs[:1] for path in paths] == [
        *((f"{path}: {NOT_ALONE}",) for path in paths[:2]),
        (),
    ]


def test_detects_a_change_in_files_beyond_the_limit(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    for number in range(MOST_FILES + 2):
        (tmp_path / "x" / f"{number:03}").write_text("a")
    before = read_held(tmp_path, ["x"])
    (tmp_path / "x" / f"{MOST_FILES + 1:03}").write_text("b")
    after = read_held(tmp_path, ["x"])
    assert len(before.texts) == MOST_FILES + 1
    assert [path for path in before.texts if before.texts[path] != after.texts[path]] == ["x/..."]


def test_records_unreadable_settings_as_one_setting(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("[core\n")
    assert read_held(tmp_path, [".git/config"]).settings == {".git/config": ("no settings that git can read",)}


def test_is_settings_accepts_only_config_files_of_git_directories() -> None:
    assert [is_settings(path) for path in (".git/config", "a/.git/modules/b/config", "config", ".git/hooks/x")] == [
        True,
        True,
        False,
        False,
    ]


def test_records_a_snapshot_for_each_project(project: Path, environ: dict[str, str]) -> None:
    assert recorded(project, environ) == Held()
    record(project, environ)
    stamps = recorded(project, environ).stamps
    now = replace(read_held(project, protected_paths(project)), paths=(".devcontainer", ".env"), stamps=stamps)
    assert (recorded(project, environ), ".env" in now.texts, [*stamps]) == (now, True, [".env"])
    assert recorded(project.parent, environ) == Held()
    leave_pending(project, environ, now, (".env",))
    assert recorded(project, environ).pending == (".env",)
    record(project, environ)
    assert recorded(project, environ).pending == ()


@pytest.mark.parametrize("text", ["no json", "[]", "{}", '{"texts": {}, "settings": []}'])
def test_a_damaged_record_counts_as_no_snapshot(project: Path, environ: dict[str, str], text: str) -> None:
    record(project, environ)
    (file,) = (project.parent / "home" / ".local" / "state" / "agent-sandbox" / "protected").iterdir()
    file.write_text(text)
    assert recorded(project, environ) == Held()


def test_names_the_folder_that_cannot_be_written(project: Path) -> None:
    (project / "file").write_text("")
    with pytest.raises(UserError) as error:
        record(project, {"XDG_STATE_HOME": str(project / "file")})
    assert error.value.problems[0].where == str(project / "file" / "agent-sandbox" / "protected")


def test_files_of_a_repository_outside_the_project_are_read_by_their_absolute_paths(tmp_path: Path) -> None:
    common, project = tmp_path / "x.git", tmp_path / "feature"
    (common / "hooks" / "inner").mkdir(parents=True)
    project.mkdir()
    (common / "config").write_text("[core]\n\tbare = true\n")
    (common / "hooks" / "inner" / "x").write_text("echo\n")
    config, hook = f"{common}/config", f"{common}/hooks/inner/x"
    got = read_held(project, [config, f"{common}/hooks"])
    assert got.texts == {config: "[core]\n\tbare = true\n", hook: "echo\n"}
    assert got.settings == {config: ("core.bare\ntrue",)}
