import json
import os
import stat
import tomllib
from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import load_manifest
from agent_sandbox.agents.manifest import Settings
from agent_sandbox.agents.together import Agents
from agent_sandbox.host import settings as module
from agent_sandbox.host.settings import (
    folder_of,
    forget_settings,
    kept_keys,
    unfit,
    user_settings,
    write_settings,
)
from agent_sandbox.resources import data_root
from table_tests import each

SETTINGS = Settings(files=(".claude/CLAUDE.md", ".claude/skills"), keys={".claude/settings.json": ("model",)})
MANIFEST = load_manifest(data_root() / "templates", "claude").model_copy(update={"settings": SETTINGS})
AGENTS = Agents((MANIFEST,))
KEYS = ("model", "language", "apiKeyHelper")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home directory with settings, a sign-in, and files that must not be taken."""
    (tmp_path / ".claude" / "skills" / "a").mkdir(parents=True)
    texts = {
        ".claude/CLAUDE.md": "be kind",
        ".claude/settings.json": '{"model": "m", "hooks": {}}',
        ".claude/.credentials.json": "sign-in",
        ".claude/history.jsonl": "sessions",
        ".claude/skills/a/SKILL.md": "skill",
    }
    for path, text in texts.items():
        (tmp_path / path).write_text(text)
    return tmp_path


def taken(home: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    found = user_settings(AGENTS, {"HOME": str(home)})
    return dict(found.files), found.left


PLAIN = {
    ".claude/settings.json": '{\n  "model": "m"\n}\n',
    ".claude/CLAUDE.md": "be kind",
    ".claude/skills/a/SKILL.md": "skill",
}


def test_takes_only_the_settings_that_the_manifest_names(home: Path) -> None:
    assert taken(home) == (PLAIN, ())


def test_does_not_follow_links(home: Path) -> None:
    (home / "secret").write_text("value")
    (home / "folder").mkdir()
    (home / "folder" / "x.md").write_text("value")
    (home / ".claude" / "skills" / "a" / "b.md").symlink_to(home / "secret")
    (home / ".claude" / "skills" / "b").symlink_to(home / "folder")
    (home / ".claude" / "CLAUDE.md").unlink()
    (home / ".claude" / "CLAUDE.md").symlink_to(home / "secret")
    files, left = taken(home)
    assert "value" not in str(files)
    assert left == (
        ".claude/CLAUDE.md: it is a link",
        ".claude/skills/a/b.md: it is a link",
        ".claude/skills/b: it is a link",
    )


def test_takes_nothing_from_a_directory_that_is_a_link(home: Path) -> None:
    (home / ".claude").rename(home / "real")
    (home / ".claude").symlink_to(home / "real")
    files, left = taken(home)
    assert (files, len(left)) == ({}, 3)


def test_leaves_out_pipes_large_files_deep_directories_and_unreadable_files(home: Path) -> None:
    skills = home / ".claude" / "skills"
    os.mkfifo(skills / "pipe.md")
    (skills / "big.md").write_text("x" * (module.MOST_FILE_BYTES + 1))
    (skills / "latin.md").write_bytes(b"\xff")
    deep = skills / "/".join("d" * (module.MOST_DEPTH + 1))
    deep.mkdir(parents=True)
    (deep / "x.md").write_text("deep")
    (home / ".claude" / "settings.json").write_text("{")
    files, left = taken(home)
    assert files.keys() == PLAIN.keys() - {".claude/settings.json"}
    assert [line.rpartition(": ")[2] for line in left] == [
        "it cannot be read",
        "it is larger than 256 KiB",
        "it is deeper than 6 directories",
        "not UTF-8 text at byte 0",
        "not a regular file",
    ]


def test_limits_the_number_of_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 2)
    files, left = taken(home)
    assert (len(files), left[0].startswith(".claude/skills/a/SKILL.md and more: 2 files or 4 MiB")) == (2, True)


def test_limits_the_total_size_of_the_files(home: Path) -> None:
    names = [f".claude/skills/b/{number:02}.md" for number in range(module.MOST_BYTES // module.MOST_FILE_BYTES)]
    (home / ".claude" / "skills" / "b").mkdir()
    for name in names:
        (home / name).write_text("x" * module.MOST_FILE_BYTES)
    files, left = taken(home)
    assert files.keys() == {*PLAIN, *names[:-1]}  # with the small files, the last one is too much
    assert left == (f"{names[-1]} and more: 500 files or 4 MiB are taken along at most",)


def test_finds_no_settings_without_a_home_directory() -> None:
    assert user_settings(AGENTS, {}).files == {}


def test_copies_are_readable_by_all_are_updated_in_place_and_can_be_removed(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    folder = folder_of("app-1", environ)
    before = os.umask(0o077)
    try:
        write_settings(folder, {"a/b/c.md": "one", "d.md": "two"})
        inode = folder.stat().st_ino
        write_settings(folder, {"a/b/c.md": "new"})
    finally:
        os.umask(before)
    assert [
        (str(path.relative_to(folder)), stat.S_IMODE(path.stat().st_mode)) for path in sorted(folder.rglob("*"))
    ] == [
        ("a", 0o755),
        ("a/b", 0o755),
        ("a/b/c.md", 0o644),
    ]
    assert (folder / "a/b/c.md").read_text() == "new"
    assert folder.stat().st_ino == inode  # containers have it mounted
    forget_settings("app-1", environ)
    assert not folder.exists()


@each(
    ("path", "text", "why"),
    [
        ("skills/a/SKILL.md", "x", ""),
        ("skills/a/run.py", "x", ""),
        ("skills/monkeys.md", "x", ""),
        ("skills/.env", "x", "its name begins with a dot"),
        ("skills/.mcp.json", "x", "its name begins with a dot"),
        ("skills/tool", "x", "it is not a text file that agents read"),
        ("skills/tool.so", "x", "it is not a text file that agents read"),
        ("skills/key.pem", "x", "it is not a text file that agents read"),
        ("skills/credentials.json", "x", "its name is that of a credential"),
        ("skills/Client_Secret.json", "x", "its name is that of a credential"),
        ("skills/auth.json", "x", "its name is that of a credential"),
        ("skills/api-key.txt", "x", "its name is that of a credential"),
        ("skills/token.txt", "x", "its name is that of a credential"),
        ("skills/id_ed25519.txt", "x", "its name is that of a credential"),
        ("a.md", "-----BEGIN OPENSSH PRIVATE KEY-----\n", "it contains a private key"),
    ],
)
def test_copies_only_text_files_without_credentials(path: str, text: str, why: str) -> None:
    assert unfit(path, text) == why


def test_keeps_only_listed_plain_values_of_a_json_file_and_the_images_values_win() -> None:
    said = {
        "model": "m",
        "language": "en",
        "hooks": {"Stop": [{"command": "x"}]},
        "env": {"KEY": "v"},
        "mcpServers": {"a": {"command": "x"}},
    }
    assert json.loads(kept_keys("s.json", json.dumps(said), KEYS, "")) == {"model": "m", "language": "en"}
    first = json.dumps({"language": "fixed", "privacy": {"x": False}})
    assert json.loads(kept_keys("s.json", json.dumps(said), KEYS, first)) == {
        "model": "m",
        "language": "fixed",
        "privacy": {"x": False},
    }


@each("value", [{"command": "x"}, [{"command": "x"}], None, [["x"]]])
def test_omits_values_that_are_not_plain(value: object) -> None:
    assert json.loads(kept_keys("s.json", json.dumps({"model": value}), KEYS, "")) == {}


def test_writes_the_keys_of_a_toml_file_before_the_tables_of_the_image() -> None:
    said = 'model = "a\\"b"\nlanguage = ["x", "y"]\nnotify = ["x"]\n[mcp_servers.a]\ncommand = "x"\n'
    first = "language = 1\n\n[projects]\ntrust = true\n"
    text = kept_keys("c.toml", said, KEYS, first)
    assert tomllib.loads(text) == {"model": 'a"b', "language": 1, "projects": {"trust": True}}


@pytest.mark.parametrize(("path", "text"), [("s.json", "{"), ("c.toml", "a = ")])
def test_a_file_that_cannot_be_parsed_is_an_error(path: str, text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        kept_keys(path, text, KEYS, "")


def test_a_json_file_that_is_not_an_object_keeps_no_keys() -> None:
    assert kept_keys("s.json", "[1]", KEYS, "") == "{}\n"
