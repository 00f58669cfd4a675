"""MCP servers: how a project names one, and where and in which form an agent reads it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from agent_sandbox.agents.shape import Keys, Plain, Shape

KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
FILE = re.compile(r"\.?[A-Za-z0-9_][A-Za-z0-9_./-]{0,200}\.(json|toml)")
TEMPLATE = Keys(KEY, "a key of its settings", Plain())
SHAPE: Mapping[str, Shape] = {"file": FILE, "key": KEY, "stdio": TEMPLATE, "remote?": TEMPLATE}
# Placeholders for the values of a server. `{words}` is the command with its arguments.
OF_STDIO, OF_REMOTE = frozenset({"{command}", "{args}", "{words}", "{env}"}), frozenset({"{url}"})
PLACEHOLDER = re.compile(r"\{.*\}")

type Value = str | bool | list[str] | dict[str, str]


class McpServer(Struct, frozen=True, kw_only=True):
    """One MCP server of a project: a command that agents start, or a `url` that they connect to."""

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: str = ""


class McpSettings(Struct, frozen=True, kw_only=True):
    """Where an agent reads its MCP servers: the `key` of a file below the home directory, and the form of an entry.

    >>> one = McpSettings(file=".a/a.json", key="mcp", stdio={"command": "{words}", "on": True})
    >>> one.entries([McpServer(name="n", command=("x", "y")), McpServer(name="r", url="https://r.test/")])
    {'n': {'command': ['x', 'y'], 'on': True}}
    """

    file: str
    key: str
    stdio: Mapping[str, Value]
    # Empty for an agent that only starts commands.
    remote: Mapping[str, Value] = {}

    def entries(self, servers: Iterable[McpServer], *, starter: tuple[str, ...] = ()) -> dict[str, dict[str, Value]]:
        """Return the entries of these servers, by name; commands begin with the words of `starter`."""
        found = {one.name: self._entry(one, starter) for one in servers}
        return {name: entry for name, entry in found.items() if entry}

    def _entry(self, server: McpServer, starter: tuple[str, ...]) -> dict[str, Value]:
        if server.url:
            values: dict[str, Value] = {"{url}": server.url}
            return _filled(self.remote, values)
        words = [*starter, *server.command]
        values = {"{command}": words[0], "{args}": words[1:], "{words}": words, "{env}": dict(server.env)}
        return _filled(self.stdio, values)


def _filled(template: Mapping[str, Value], values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the template with these values; a server without variables gets no key for them."""
    made = {key: values.get(value, value) if isinstance(value, str) else value for key, value in template.items()}
    return {key: value for key, value in made.items() if value != {}}


def read_mcp(said: Mapping[str, Any]) -> McpSettings:
    """Return the checked value of `mcp` in a manifest."""
    return McpSettings(file=said["file"], key=said["key"], stdio=said["stdio"], remote=said.get("remote", {}))


def faults_of_mcp(said: Mapping[str, Any], states: Iterable[str]) -> Iterator[str]:
    """Yield problems of values that are valid on their own."""
    if str(PurePosixPath(said["file"]).parent) not in states:
        yield f"`mcp.file` is {said['file']}, which is not directly in a directory of `state`"
    for name, known in (("stdio", OF_STDIO), ("remote", OF_REMOTE)):
        for key, value in said.get(name, {}).items():
            if isinstance(value, str) and PLACEHOLDER.fullmatch(value) and value not in known:
                yield f"`mcp.{name}.{key}` is {value!r}; known: {', '.join(sorted(known))}"
