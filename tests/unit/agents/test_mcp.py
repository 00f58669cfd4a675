from typing import Any

import pytest
from msgspec.structs import replace

from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.agents.manifest import parse_manifest
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


def test_parses_the_mcp_settings_of_a_manifest() -> None:
    said = {**VALID, "remote": {"url": "{url}", "tools": ["*"], "on": True}}
    assert parse_manifest({**MANIFEST, "mcp": said}, file="f").mcp == McpSettings(
        file=".config/example/mcp.json",
        key="servers",
        stdio={"command": "{words}"},
        remote={"url": "{url}", "tools": ["*"], "on": True},
    )


@each(
    ("wrong", "fault"),
    [
        ({"file": ".other/a.json"}, "`mcp.file` is .other/a.json, which is not directly in a directory of `state`"),
        (
            {"file": ".example/a/b.json"},
            "`mcp.file` is .example/a/b.json, which is not directly in a directory of `state`",
        ),
        (
            {"file": ".example/../a.json"},
            "`mcp.file` is .example/../a.json, which is not directly in a directory of `state`",
        ),
        ({"file": ".example/a.yaml"}, r"`mcp.file` is '.example/a.yaml', which does not match \.?[A-Za-z0-9_]"),
        ({"key": "a.b"}, "`mcp.key` is 'a.b', which does not match"),
        ({"stdio": {"a": 1}}, "`mcp.stdio.a` must be text, true, false or a list of texts"),
        ({"stdio": {"a b": "x"}}, "`mcp.stdio` has the name 'a b', which is not a key of its settings"),
        ({"stdio": {"a": "{url}"}}, "`mcp.stdio.a` is '{url}'; known: {args}, {command}, {env}, {words}"),
        ({"remote": {"a": "{env}"}}, "`mcp.remote.a` is '{env}'; known: {url}"),
        ({"more": 1}, "unknown key `more` in mcp"),
    ],
)
def test_rejects_invalid_mcp_settings(wrong: dict[str, Any], fault: str) -> None:
    with pytest.raises(UserError) as error:
        parse_manifest({**MANIFEST, "mcp": {**VALID, **wrong}}, file="f")
    assert [problem.what.startswith(fault) for problem in error.value.problems] == [True], str(error.value)
