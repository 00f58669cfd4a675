"""The `mcp` key of a project file: MCP servers for all its agents."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, model_validator

from agent_sandbox.agents.mcp import McpServer
from agent_sandbox.policy.file.fields import Listed, Strict, Written
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile.parse.checking import TEXT, invalid, require_text

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
URL = re.compile(
    r"https?://[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?(/[A-Za-z0-9._~/%?=&+:,@-]{0,2000})?",
    re.ASCII,
)
# Of all servers together: they are one variable of the container, once for each agent.
MOST_SERVERS, MOST_TEXT = 30, 8000
# Some agents replace these by variables, files or the output of commands; others pass them on unchanged.
EXPANDED = re.compile(r"\$|\{(env|file):")


def _word(value: object) -> str:
    """Return one word of a command, which all agents pass on alike."""
    word = require_text(value)
    if not word.isprintable():
        raise invalid("not one line of text", "put it into a script, and name that here")
    if EXPANDED.search(word):
        raise invalid(f"agents expand {safe_repr(word)} differently", "put it into a script, and name that here")
    return word


def _program(value: object) -> str:
    word = _word(value)
    if not word.strip() or word.startswith("-"):
        raise invalid(f"not a program: {safe_repr(word)}", "write `{command: NAME, args: [...]}`")
    return word


def _url(value: object) -> str:
    if not URL.fullmatch(_word(value)):
        raise invalid(f"not the URL of a server: {safe_repr(str(value))}", "write `https://HOST/PATH`")
    return str(value)


def _variables(values: dict[str, str]) -> dict[str, str]:
    for name in values:
        if not VARIABLE.fullmatch(name):
            raise invalid(f"not the name of a variable: {safe_repr(name)}", "use letters, digits and `_`")
    return values


Word = Annotated[str, PlainValidator(_word), TEXT]


class McpServerSpec(Strict):
    """An MCP server: a command that agents start in the sandbox, or a `url` that they connect to."""

    command: Written[Annotated[str, PlainValidator(_program), TEXT]] = None
    args: Listed[Word] = ()
    env: Annotated[dict[str, Word], AfterValidator(_variables)] = Field(default_factory=dict)
    url: Written[Annotated[str, PlainValidator(_url), TEXT]] = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.command is None) == (self.url is None):
            hint = "write `{command: NAME, args: [...]}` or `{url: https://HOST/PATH}`"
            raise invalid("a server needs exactly one of `command` and `url`", hint)
        if self.url is not None and (self.args or self.env):
            raise invalid("`args` and `env` belong to a `command`, not to a `url`", "remove them")
        return self

    def server(self, name: str) -> McpServer:
        """Return the server of this name."""
        command = () if self.command is None else (self.command, *self.args)
        return McpServer(name=name, command=command, env=self.env, url=self.url or "")


def _named(servers: dict[str, McpServerSpec]) -> dict[str, McpServerSpec]:
    for name in servers:
        if not NAME.fullmatch(name):
            raise invalid(f"not the name of a server: {safe_repr(name)}", "use letters, digits, `-` and `_`")
    if len(servers) > MOST_SERVERS:
        raise invalid(f"more than {MOST_SERVERS} servers", "keep those that the agents need")
    if sum(len(one.model_dump_json().encode()) for one in servers.values()) > MOST_TEXT:
        raise invalid(f"more than {MOST_TEXT} bytes", "put long commands into scripts, and name those here")
    return servers


def none_is_empty(value: object) -> object:
    """Return an empty mapping for a section with only comments."""
    return {} if value is None else value


Servers = Annotated[dict[str, McpServerSpec], AfterValidator(_named), BeforeValidator(none_is_empty)]
