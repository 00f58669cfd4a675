"""configure_mcp.py, mcp.sh: write the project's MCP servers to agents' settings and keep everything else."""

import importlib.util
import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bash_harness import IMAGE, Shell
from table_tests import each


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("configure_mcp", IMAGE / "configure_mcp.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROGRAM = loaded()
ONE, OTHER = {"command": "one", "args": ["-y"], "env": {"A": "b"}}, {"url": "https://other.test/"}
TOML = """\
# The user's own.
model = "m"

[mcp_servers.mine]
command = "mine"

[mcp_servers.mine.env]
B = "c"

# about the project
[projects."/workspace"]
trust_level = "trusted"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A home directory with the state directories of two agents."""

    path: Path
    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]

    def start(self, **servers: dict[str, Any]) -> list[str]:
        """Start with these servers for both agents; return the messages."""
        places = [(".a/settings.json", "mcpServers"), (".b/config.toml", "mcp_servers")]
        said = [{"file": file, "key": key, "servers": servers} for file, key in places]
        return self.start_with(json.dumps(said) if servers else "")

    def start_with(self, variable: str) -> list[str]:
        self.patch.setenv("HOME", str(self.path))
        self.patch.setenv("AGENT_SANDBOX_MCP", variable)
        failed = PROGRAM.main([str(path) for path in sorted(self.path.glob("*/.agent-sandbox-mcp.json"))])
        said = self.capture.readouterr().err.splitlines()
        assert failed == any(" are not in " in line for line in said)
        return [line.removeprefix("agent-sandbox: ").replace(f"{self.path}/", "") for line in said]

    @property
    def json(self) -> Path:
        return self.path / ".a" / "settings.json"

    @property
    def toml(self) -> Path:
        return self.path / ".b" / "config.toml"

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """The names of the servers of both agents."""
        return [*json.loads(self.json.read_text())["mcpServers"]], [
            *tomllib.loads(self.toml.read_text())["mcp_servers"]
        ]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Home:
    for name in (".a", ".b"):
        (tmp_path / name).mkdir()
    return Home(path=tmp_path, patch=monkeypatch, capture=capsys)


def test_writes_servers_for_agents_without_settings(home: Home) -> None:
    assert home.start(one=ONE, other=OTHER) == []
    assert json.loads(home.json.read_text()) == {"mcpServers": {"one": ONE, "other": OTHER}}
    assert home.toml.read_text() == (
        '[mcp_servers.one]\ncommand = "one"\nargs = ["-y"]\nenv = { A = "b" }\n\n'
        '[mcp_servers.other]\nurl = "https://other.test/"\n'
    )
    assert home.json.stat().st_mode & 0o777 == 0o600


def test_keeps_all_other_settings_when_servers_are_added_and_removed(home: Home) -> None:
    mine = {"theme": "dark", "mcpServers": {"mine": {"command": "mine"}}, "né": [1.5, None]}
    home.json.write_text(json.dumps(mine))
    home.json.chmod(0o640)
    home.toml.write_text(TOML)
    assert home.start(one=ONE) == []
    assert home.names == (["mine", "one"], ["mine", "one"])
    assert home.toml.read_text().startswith(TOML)
    assert home.start() == []
    assert (json.loads(home.json.read_text()), home.json.stat().st_mode & 0o777) == (mine, 0o640)
    assert home.toml.read_text() == TOML
    assert sorted(path.name for path in home.path.glob("*/*")) == ["config.toml", "settings.json"]


def test_writes_nothing_if_nothing_has_changed(home: Home) -> None:
    home.start(one=ONE)
    files = [*home.path.glob("*/*")]
    before = [path.stat().st_ino for path in files]
    assert home.start(one=ONE) == []
    assert [path.stat().st_ino for path in files] == before


def test_replaces_a_changed_server(home: Home) -> None:
    home.start(one=ONE, other=OTHER)
    assert home.start(one=OTHER) == []
    assert json.loads(home.json.read_text()) == {"mcpServers": {"one": OTHER}}
    assert tomllib.loads(home.toml.read_text()) == {"mcp_servers": {"one": OTHER}}


def test_keeps_a_users_server_of_the_same_name_even_if_it_is_equal(home: Home) -> None:
    home.json.write_text(json.dumps({"mcpServers": {"one": {"command": "mine"}}}))
    home.toml.write_text('[mcp_servers.one]\nurl = "https://other.test/"\n')
    said = [
        f"{file} has its own MCP server `one`, which is kept; the project's is not configured"
        for file in (".a/settings.json", ".b/config.toml")
    ]
    assert home.start(one=OTHER) == said
    assert home.start() == []
    assert json.loads(home.json.read_text()) == {"mcpServers": {"one": {"command": "mine"}}}
    assert home.names[1] == ["one"]


def test_does_not_remove_a_server_that_the_agent_edited(home: Home) -> None:
    home.start(one=ONE)
    edited = {"mcpServers": {"one": {**ONE, "disabled": True}}}
    home.json.write_text(json.dumps(edited))
    home.start()
    assert json.loads(home.json.read_text()) == edited
    assert "mcp_servers" not in tomllib.loads(home.toml.read_text())


def test_removes_tables_that_the_agent_reformatted(home: Home) -> None:
    home.start(one=ONE)
    home.toml.write_text('[mcp_servers."one"]\nargs = ["-y"]\ncommand = "one"\n\n[mcp_servers.one.env]\nA = "b"\n# c\n')
    assert home.start(other=OTHER) == []
    assert home.toml.read_text() == '# c\n\n[mcp_servers.other]\nurl = "https://other.test/"\n'


def test_removes_servers_from_an_agent_that_the_project_no_longer_configures(home: Home) -> None:
    home.start(one=ONE)
    one = {"file": ".a/settings.json", "key": "mcpServers", "servers": {"one": ONE}}
    assert home.start_with(json.dumps([one])) == []
    assert json.loads(home.json.read_text()) == {"mcpServers": {"one": ONE}}
    assert tomllib.loads(home.toml.read_text()) == {}


@pytest.mark.parametrize("call", range(4))
def test_the_next_start_repairs_an_interrupted_start(home: Home, call: int) -> None:
    home.start(one=ONE)
    replace, calls = os.replace, iter(range(9))

    def ended(source: str, target: str) -> None:
        if next(calls) == call:
            raise KeyboardInterrupt
        replace(source, target)

    home.patch.setattr(os, "replace", ended)
    with pytest.raises(KeyboardInterrupt):
        home.start(one=OTHER, two=ONE)
    home.patch.setattr(os, "replace", replace)
    assert home.start(one=OTHER) == []
    assert json.loads(home.json.read_text()) == {"mcpServers": {"one": OTHER}}
    assert tomllib.loads(home.toml.read_text()) == {"mcp_servers": {"one": OTHER}}


LINK = "Too many levels of symbolic links"


@each(
    ("text", "why"),
    [
        ("{ // mine\n}", "Expecting property name enclosed in double quotes: line 1 column 3 (char 2)"),
        ("[]", "it has no mapping where one is expected"),
        ('{"mcpServers": []}', "it has no mapping where one is expected"),
        ('{"a": 1, "a": 2}', "a key is repeated"),
        ('{"a": 1e999}', "Out of range float values are not JSON compliant"),
        ('{"a": "\\ud800"}', "'utf-8' codec can't encode character '\\ud800' in position 10: surrogates not allowed"),
        ("[" * 100_000, "maximum recursion depth exceeded while decoding a JSON array from a unicode string"),
    ],
)
def test_refuses_json_that_cannot_be_rewritten_without_loss(
    tmp_path_factory: pytest.TempPathFactory, text: str, why: str
) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / "settings.json").write_text(text)
    with pytest.raises((ValueError, RecursionError)) as error:
        PROGRAM.configure(str(home / "settings.json"), "mcpServers", {"one": ONE})
    assert str(error.value).startswith(why)
    assert (home / "settings.json").read_text() == text


@each(
    "text",
    [
        'mcp_servers = { mine = { command = "x" } }\n',
        "a = [\n[1]\n]\nb = nan\n",
    ],
)
def test_refuses_toml_that_cannot_be_edited_automatically(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.mktemp("home") / "config.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match="cannot be edited automatically"):
        PROGRAM.configure(str(file), "mcp_servers", {"one": ONE})
    assert file.read_text() == text


def test_refuses_toml_with_the_tables_header_inside_a_string(home: Home) -> None:
    home.start(one=ONE)
    text = home.toml.read_text() + '[a]\nb = """\n[mcp_servers.one]\n"""\n'
    home.toml.write_text(text)
    why = "`mcp_servers` is written in a way that cannot be edited automatically"
    assert home.start() == [f"the project's MCP servers are not in .b/config.toml: {why}"]
    assert home.toml.read_text() == text


def test_does_not_follow_links_or_wait_for_pipes(home: Home) -> None:
    secret = home.path / "elsewhere.json"
    secret.write_text("{}")
    home.json.symlink_to(secret)
    os.mkfifo(home.toml)
    assert home.start(one=ONE) == [
        f"the project's MCP servers are not in .a/settings.json: {LINK}",
        "the project's MCP servers are not in .b/config.toml: it is not a regular file",
    ]
    assert secret.read_text() == "{}"
    home.toml.unlink()
    (home.path / ".b" / ".agent-sandbox-mcp.json").symlink_to(secret)
    assert home.start(one=ONE) == [f"the project's MCP servers are not in .a/settings.json: {LINK}"]
    assert secret.read_text() == "{}"
    assert not (home.path / ".b" / ".agent-sandbox-mcp.json").is_symlink()


@each(
    "record",
    [
        "garbage",
        "[]",
        '{"file": "config.toml", "servers": []}',
        '{"file": "config.toml", "key": "mcp_servers", "servers": {"mine": 1}}',
        '{"file": "../elsewhere.json", "key": "mcpServers", "servers": {"mine": [{"command": "mine"}]}}',
    ],
)
def test_a_forged_record_changes_no_settings(tmp_path_factory: pytest.TempPathFactory, record: str) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / ".b").mkdir()
    (home / ".b" / "config.toml").write_text(TOML)
    elsewhere = home / "elsewhere.json"
    elsewhere.write_text('{"mcpServers": {"mine": {"command": "mine"}}}')
    (home / ".b" / ".agent-sandbox-mcp.json").write_text(record)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.delenv("AGENT_SANDBOX_MCP", raising=False)
        assert PROGRAM.main([str(home / ".b" / ".agent-sandbox-mcp.json")]) == 0
    assert elsewhere.read_text() == '{"mcpServers": {"mine": {"command": "mine"}}}'
    assert (home / ".b" / "config.toml").read_text() == TOML


def test_does_not_read_files_above_the_limit(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROGRAM, "MOST_BYTES", 10)
    home.json.write_text('{"a": "12345678"}')
    assert home.start(one=ONE) == ["the project's MCP servers are not in .a/settings.json: it is too large"]


def test_runs_the_program_only_with_servers_to_write_or_a_record(shell: Shell) -> None:
    program = shell.home / "program"
    program.write_text('#!/bin/sh\necho "ran $*"\n')
    program.chmod(0o755)
    (shell.home / "state").mkdir()
    states = f"{shell.home}/none:{shell.home}/state"
    box = shell.within(AGENT_SANDBOX_MCP_PROGRAM=str(program), AGENT_SANDBOX_STATE=states)
    assert box("mcp", "configure_mcp").stdout == ""
    assert box("mcp", "configure_mcp", AGENT_SANDBOX_MCP="[]").stdout == "ran \n"
    record = shell.home / "state" / ".agent-sandbox-mcp.json"
    record.touch()
    assert box("mcp", "configure_mcp").stdout == f"ran {record}\n"


def test_mcp_server_passes_the_containers_environment_and_the_placeholders(shell: Shell) -> None:
    first, placeholders = shell.home / "environ", shell.home / "placeholders.sh"
    first.write_bytes(
        b"HTTPS_PROXY=http://192.0.2.1:8080\0MINE=no\0TWO=lines\nof text\0a[$(touch planted)]=x\0no value\0"
    )
    placeholders.write_text("export TOKEN=placeholder\n")
    done = shell.within(AGENT_SANDBOX_ENVIRON=str(first), AGENT_SANDBOX_PLACEHOLDERS=str(placeholders)).run(
        IMAGE / "mcp-server", "sh", "-c", 'echo "$HTTPS_PROXY $MINE $TWO $TOKEN $1"', "sh", "a  b", MINE="yes"
    )
    assert done.stdout == "http://192.0.2.1:8080 yes lines\nof text placeholder a  b\n"
    assert not (shell.home / "planted").exists()


def test_mcp_server_names_a_missing_program(shell: Shell) -> None:
    (shell.home / "environ").touch()
    done = shell.within(AGENT_SANDBOX_ENVIRON=str(shell.home / "environ")).run(
        IMAGE / "mcp-server", "no-such-program", check=False
    )
    assert (done.returncode, "no-such-program" in done.stderr) == (127, True)
