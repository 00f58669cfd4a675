from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.agents.manifest import AgentManifest, parse_manifest
from agent_sandbox.agents.mcp import McpServer, McpSettings
from agent_sandbox.problems import UserError
from agent_sandbox.resources import data_root
from table_tests import each

PROGRAM = McpServer(name="db", command=("uvx", "pg", "--x"), env={"A": "b"})
BARE = replace(PROGRAM, name="bare", command=("pg",), env={})
REMOTE = McpServer(name="docs", url="https://mcp.example.com/mcp")
FOLDER = data_root() / "templates"
PLACES = {name: load_manifest(FOLDER, name).mcp for name in known_agents(FOLDER)}
# As each client writes it with its own command, `AGENT mcp add`.
WRITTEN: dict[str, dict[str, Any]] = {
    "claude": {
        "db": {"type": "stdio", "command": "uvx", "args": ["pg", "--x"], "env": {"A": "b"}},
        "docs": {"type": "http", "url": REMOTE.url},
    },
    "copilot": {
        "db": {"tools": ["*"], "type": "local", "command": "uvx", "args": ["pg", "--x"], "env": {"A": "b"}},
        "docs": {"tools": ["*"], "type": "http", "url": REMOTE.url},
    },
    "codex": {
        "db": {"command": "uvx", "args": ["pg", "--x"], "env": {"A": "b"}},
        "docs": {"url": REMOTE.url},
    },
    "gemini": {
        "db": {"command": "uvx", "args": ["pg", "--x"], "env": {"A": "b"}},
        "docs": {"url": REMOTE.url, "type": "http"},
    },
    "qwen": {
        "db": {"command": "uvx", "args": ["pg", "--x"], "env": {"A": "b"}},
        "docs": {"httpUrl": REMOTE.url},
    },
    "factory": {
        "db": {"type": "stdio", "command": "uvx", "args": ["pg", "--x"], "env": {"A": "b"}, "disabled": False},
        "docs": {"type": "http", "url": REMOTE.url, "disabled": False},
    },
    "opencode": {
        "db": {"type": "local", "command": ["uvx", "pg", "--x"], "environment": {"A": "b"}, "enabled": True},
        "docs": {"type": "remote", "url": REMOTE.url, "enabled": True},
    },
    "crush": {
        "db": {"type": "stdio", "command": "uvx", "args": ["pg", "--x"], "env": {"A": "b"}},
        "docs": {"type": "http", "url": REMOTE.url},
    },
}


def test_each_agent_gets_mcp_servers_in_the_form_of_its_settings() -> None:
    found = {name: place.entries([PROGRAM, REMOTE]) for name, place in PLACES.items() if place}
    assert found == WRITTEN


def test_the_starter_comes_first_and_empty_variables_are_omitted() -> None:
    assert [place.entries([BARE], starter=("start",)) for place in (PLACES["claude"], PLACES["opencode"]) if place] == [
        {"bare": {"type": "stdio", "command": "start", "args": ["pg"]}},
        {"bare": {"type": "local", "command": ["start", "pg"], "enabled": True}},
    ]


def test_an_agent_without_remote_settings_gets_only_local_servers() -> None:
    place = McpSettings(file=".a/a.json", key="k", stdio={"command": "{command}"})
    assert place.entries([PROGRAM, REMOTE]) == {"db": {"command": "uvx"}}


MANIFEST: dict[str, Any] = {
    "name": "example",
    "title": "Example",
    "summary": "An agent",
    "install": {"npm": {"package": "@example/agent", "version": "1.2.3"}},
    "command": ["example"],
    "version_command": ["example", "--version"],
    "unattended": {},
    "state": [".example", ".config/example"],
    "services": ["example"],
}
VALID = {"file": ".config/example/mcp.json", "key": "servers", "stdio": {"command": "{words}"}}


def parse(mcp: dict[str, Any]) -> AgentManifest:
    return parse_manifest(yaml.safe_dump({**MANIFEST, "mcp": mcp}, sort_keys=False), file="f")


def test_parses_the_mcp_settings_of_a_manifest() -> None:
    said = {**VALID, "remote": {"url": "{url}", "tools": ["*"], "on": True}}
    assert parse(said).mcp == McpSettings(
        file=".config/example/mcp.json",
        key="servers",
        stdio={"command": "{words}"},
        remote={"url": "{url}", "tools": ["*"], "on": True},
    )


FILE = "not a .json or .toml file below the home directory"
KEY, LETTERS = "not a key of the agent's settings", "use letters, digits, `_` and `-`"
PLAIN = "text, `true`, `false` or a list of texts expected; quote a number"
NOT_HERE = "which is not directly in a directory of `state`"


@each(
    ("wrong", "told"),
    [
        ({"file": ".other/a.json"}, f"f:20:9: `mcp.file` is .other/a.json, {NOT_HERE}"),
        ({"file": ".example/a/b.json"}, f"f:20:9: `mcp.file` is .example/a/b.json, {NOT_HERE}"),
        ({"file": ".example/../a.json"}, f"f:20:9: `mcp.file` is .example/../a.json, {NOT_HERE}"),
        ({"file": ".example/a.yaml"}, f"f:20:9: {FILE}: '.example/a.yaml'; write `.NAME/FILE.json`"),
        ({"key": "a.b"}, f"f:21:8: {KEY}: 'a.b'; {LETTERS}"),
        *(({"stdio": {"a": value}}, f"f:23:{column}: {PLAIN}") for value, column in ((1, 8), (None, 8), ({}, 8))),
        ({"stdio": {"a": [1]}}, f"f:24:5: {PLAIN}"),
        ({"stdio": {"a b": "x"}}, f"f:23:5: {KEY}: 'a b'; {LETTERS}"),
        ({"stdio": {"a": "{url}"}}, "f:23:8: `mcp.stdio.a` is '{url}'; known: {args}, {command}, {env}, {words}"),
        ({"remote": {"a": "{env}"}}, "f:25:8: `mcp.remote.a` is '{env}'; known: {url}"),
        ({"more": 1}, "f:24:3: unknown key 'more'; known: file, key, remote, stdio"),
    ],
)
def test_rejects_invalid_mcp_settings(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as error:
        parse({**VALID, **wrong})
    assert str(error.value) == told
