"""MCP servers: how a project names one, and where and in which form an agent reads it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Annotated

from msgspec import Struct
from pydantic import Field, PlainValidator

from agent_sandbox.agents.fields import Fault, Key
from agent_sandbox.policy.file.fields import Strict
from agent_sandbox.policyfile.parse.checking import invalid, matching

FILE = re.compile(r"\.?[A-Za-z0-9_][A-Za-z0-9_./-]{0,200}\.(json|toml)")
# Placeholders for the values of a server. `{words}` is the command with its arguments.
KNOWN = {"stdio": ("{args}", "{command}", "{env}", "{words}"), "remote": ("{url}",)}
PLACEHOLDER = re.compile(r"\{.*\}")

type Value = str | bool | list[str] | dict[str, str]


class McpServer(Struct, frozen=True, kw_only=True):
    """One MCP server of a project: a command that agents start, or a `url` that they connect to."""

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: str = ""


def _plain(value: object) -> object:
    if not isinstance(value, str | bool) and not (
        isinstance(value, list) and all(isinstance(one, str) for one in value)
    ):
        raise invalid("text, `true`, `false` or a list of texts expected", "quote a number")
    return value


Template = dict[Key, Annotated[str | bool | list[str], PlainValidator(_plain)]]


class McpSettings(Strict):
    """Where an agent reads its MCP servers: the `key` of a file below the home directory, and the form of an entry.

    >>> one = McpSettings(file=".a/a.json", key="mcp", stdio={"command": "{words}", "on": True})
    >>> one.entries([McpServer(name="n", command=("x", "y")), McpServer(name="r", url="https://r.test/")])
    {'n': {'command': ['x', 'y'], 'on': True}}
    """

    file: Annotated[str, matching(FILE, "a .json or .toml file below the home directory", "write `.NAME/FILE.json`")]
    key: Key
    stdio: Template
    # Empty for an agent that only starts commands.
    remote: Template = Field(default_factory=dict)

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

    def contradictions(self, states: Iterable[str]) -> Iterator[Fault]:
        """Yield problems of values that are valid on their own. `states` are the agent's state directories."""
        if str(PurePosixPath(self.file).parent) not in states:
            yield ("file",), f"`mcp.file` is {self.file}, which is not directly in a directory of `state`"
        for name, known in KNOWN.items():
            for key, value in getattr(self, name).items():
                if isinstance(value, str) and PLACEHOLDER.fullmatch(value) and value not in known:
                    yield (name, key), f"`mcp.{name}.{key}` is {value!r}; known: {', '.join(known)}"


def _filled(template: Mapping[str, str | bool | list[str]], values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the template with these values; a server without variables gets no key for them."""
    made = {key: values.get(value, value) if isinstance(value, str) else value for key, value in template.items()}
    return {key: value for key, value in made.items() if value != {}}
