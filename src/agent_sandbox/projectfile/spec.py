"""The model of a project file."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from agent_sandbox.agents.mcp import McpServer
from agent_sandbox.agents.pin import parse_pin
from agent_sandbox.policy.file.fields import AtLeastOne, Listed, Strict, Written
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile.parse.checking import TEXT, invalid, matching, require_text
from agent_sandbox.projectfile.beside import Besides
from agent_sandbox.projectfile.browser import CONTROLLERS, NAME
from agent_sandbox.projectfile.checks import BaseImage, FileName
from agent_sandbox.projectfile.mcp import McpServerSpec, Servers, none_is_empty
from agent_sandbox.projectfile.paths import LONGEST_PATH, is_below, is_script
from agent_sandbox.projectfile.ports import FIRST_FREE, Pair, parse_port
from agent_sandbox.stack.engine import BUILD_KEY
from agent_sandbox.stack.limits import LIMITS, limit_problem
from agent_sandbox.stack.naming import TITLE_LENGTH
from agent_sandbox.stack.recorded import Ide

MOST_PACKAGES, MOST_PATHS, MOST_PORTS = 200, 50, 20
LONGEST_VALUE = 4000
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
# The programs of the sandbox depend on these; those of proxy and trust store are rejected when the stack is rendered.
OURS = frozenset({"PATH", "HOME", "USER", "SHELL", "ENV", "IFS", "CDPATH", "GLOBIGNORE", "NODE_OPTIONS", "SHELLOPTS"})
OUR_PREFIXES = ("AGENT_SANDBOX_", "LD_", "BASH", "PYTHON", "GIT_CONFIG", "GLIBC_", "GCONV_", "LOCPATH")
# Names and versions only: nothing that a package manager takes for an option, a path or a URL.
# A `-` at the end would remove the package.
DEBIAN = re.compile(r"[a-z0-9][a-z0-9+.-]{1,99}(?<!-)(=[A-Za-z0-9][A-Za-z0-9.+~:-]{0,99}(?<!-))?", re.ASCII)
PIP = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(\[[A-Za-z0-9._,-]{1,200}\])?"
    r"((==|>=|<=|~=|!=|<|>)[A-Za-z0-9][A-Za-z0-9.*+!-]{0,99}(,|\Z)){0,4}(?<!,)",
    re.ASCII,
)
NPM = re.compile(
    r"(@[a-z0-9][a-z0-9._-]{0,99}/)?[a-z0-9][a-z0-9._-]{0,99}(@[~^]?[A-Za-z0-9][A-Za-z0-9.+-]{0,99})?", re.ASCII
)


def _agent(value: object, info: ValidationInfo) -> str:
    name, known = require_text(value), (info.context or {}).get("agents")
    if known is not None and name not in known:
        raise PydanticCustomError("word", "agent", {"kind": "agent", "word": name, "words": sorted(known)})
    return name


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise invalid(f"{', '.join(twice)} is listed twice", "keep one of them")
    return names


def _agent_versions(values: dict[str, object], info: ValidationInfo) -> dict[str, str]:
    for name, value in values.items():
        _agent(name, info)
        if parse_pin(str(value)) is None:
            hint = f"write `{name}: 1.2.3`, or run `agent-sandbox update {name}`"
            raise invalid(f"not the version of an agent: {safe_repr(str(value))}", hint)
    return {name: str(value) for name, value in values.items()}


def _editor(value: object) -> Ide:
    word, words = require_text(value), [ide.value for ide in Ide]
    if word not in words:
        raise PydanticCustomError("word", "editor", {"kind": "editor", "word": word, "words": words})
    return Ide(word)


def _title(value: object) -> str:
    title = require_text(value)
    if not title.strip() or not title.isprintable() or len(title) > TITLE_LENGTH:
        raise invalid("not a valid name", f"use up to {TITLE_LENGTH} printable characters")
    return title


def _limit(name: str) -> PlainValidator:
    def checked(value: object) -> str:
        text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
        if problem := limit_problem(name, text):
            raise invalid(problem.what, problem.hint)
        return text

    return PlainValidator(checked)


def _none_is_empty_list(value: object) -> object:
    """Return an empty list for a section with only comments."""
    return [] if value is None else value


def _number(kind: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": kind}, {"type": "string"}]})


Agent = Annotated[str, PlainValidator(_agent), WithJsonSchema({"type": "string"})]
Editor = Annotated[Ide, PlainValidator(_editor), WithJsonSchema({"enum": [ide.value for ide in Ide]})]
Title = Annotated[str, PlainValidator(_title), WithJsonSchema({"type": "string", "maxLength": TITLE_LENGTH})]


def _few_paths[T](paths: tuple[T, ...]) -> tuple[T, ...]:
    if len(paths) > MOST_PATHS:
        raise invalid(f"more than {MOST_PATHS} paths", "name a directory that contains them")
    return paths


def _few(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) > MOST_PACKAGES:
        raise invalid(f"more than {MOST_PACKAGES} packages", f"build an image of your own with `{BUILD_KEY}`")
    return _once(names)


type Packages[T] = Annotated[Listed[T], BeforeValidator(_none_is_empty_list), AfterValidator(_few)]
Debian = Annotated[str, matching(DEBIAN, "a Debian package", "write `NAME` or `NAME=VERSION`"), TEXT]
Pip = Annotated[str, matching(PIP, "a package of PyPI", "write `NAME` or `NAME==VERSION`"), TEXT]
Npm = Annotated[str, matching(NPM, "a package of npm", "write `NAME` or `NAME@VERSION`"), TEXT]


def _below(value: object) -> str:
    """Return a path of the project that names no other place; a `/` at the end means a directory."""
    path = require_text(value)
    parts = path.removesuffix("/").split("/")
    if not is_below(path.removesuffix("/")):
        raise invalid(f"not a path in the project: {safe_repr(path)}", "write it without `..`, from the project's root")
    if parts[0].casefold() in {".devcontainer", ".git"}:
        raise invalid(f"{safe_repr(path)} is protected", "the sandbox needs it, and the agent cannot write it")
    return path


def _script(value: object) -> str:
    path = require_text(value)
    if not is_script(path):
        hint = "write its path from the project's root, with letters, digits, `.`, `_` and `-`"
        raise invalid(f"not a script in the project: {safe_repr(path)}", hint)
    return path


def _place(value: object) -> str:
    path = require_text(value)
    if not path.startswith(("/", "~/", "../")) or not path.isprintable() or len(path) > LONGEST_PATH:
        raise invalid(f"not a path outside the project: {safe_repr(path)}", "write `../NAME`, `~/NAME` or `/PATH`")
    return path


def _variables(values: dict[str, object]) -> dict[str, str]:
    for name, value in values.items():
        if not VARIABLE.fullmatch(name):
            raise invalid(f"not the name of a variable: {safe_repr(name)}", "use letters, digits and `_`")
        if name.upper() in OURS or name.upper().startswith(OUR_PREFIXES):
            raise invalid(f"`{name}` is set by the sandbox, or changes how its checks run", "use another name")
        if not isinstance(value, str | int) or not str(value).isprintable() or len(str(value)) > LONGEST_VALUE:
            raise invalid(f"the value of `{name}` is not one line of text", "write it in quotes")
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}


def _port(value: object) -> Pair:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if text.endswith("/udp"):
        raise invalid(f"not a port: {safe_repr(text)}", "remove it: only TCP ports answer on this machine")
    found = parse_port(text)
    if not found or not found[0]:
        raise invalid(f"not a port: {safe_repr(text or str(value))}", 'write 3000, or "8080:3000"')
    if found[0] < FIRST_FREE:
        raise invalid(f"port {found[0]} of this machine needs root", f'write "{found[0] + 8000}:{found[1]}"')
    return found


def _distinct(ports: tuple[Pair, ...]) -> tuple[Pair, ...]:
    twice = sorted(str(here) for here, count in Counter(here for here, _ in ports).items() if count > 1)
    if twice:
        raise invalid(f"port {', '.join(twice)} of this machine is listed twice", 'write "HERE:PORT" with another one')
    if len(ports) > MOST_PORTS:
        raise invalid(f"more than {MOST_PORTS} ports", "open the others with `agent-sandbox ports`")
    return ports


Below = Annotated[str, PlainValidator(_below), TEXT]
Script = Annotated[str, PlainValidator(_script), TEXT]
Place = Annotated[str, PlainValidator(_place), TEXT]
Variables = Annotated[dict[str, Any], AfterValidator(_variables)]


AgentVersions = Annotated[
    dict[str, Any],
    BeforeValidator(none_is_empty),
    AfterValidator(_agent_versions),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
]


Port = Annotated[
    tuple[int, int], PlainValidator(_port), WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]})
]


def _browser(value: object) -> bool | str:
    if isinstance(value, bool) or (isinstance(value, str) and value in CONTROLLERS):
        return value
    raise invalid(f"not a browser: {safe_repr(str(value))}", "write true, or playwright")


Browser = Annotated[
    bool | str, PlainValidator(_browser), WithJsonSchema({"anyOf": [{"type": "boolean"}, {"const": "playwright"}]})
]


def _mtu(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 576 <= value <= 9000:
        return value
    raise invalid(f"not an MTU: {safe_repr(str(value))}", "write the bytes of the largest packets, from 576 to 9000")


Mtu = Annotated[int, PlainValidator(_mtu), WithJsonSchema({"type": "integer", "minimum": 576, "maximum": 9000})]


class MountSpec(Strict):
    """A file or directory outside the project; the agent can only read it unless `read_only` is false."""

    path: Place
    read_only: bool = True


class ToolsSpec(Strict):
    """Programs that are installed into the image from PyPI and npm."""

    pip: Packages[Pip] = ()
    npm: Packages[Npm] = ()


class LimitsSpec(Strict):
    """What the agent's processes may use."""

    memory: Written[Annotated[str, _limit("memory"), WithJsonSchema({"type": "string"})]] = None
    cpus: Written[Annotated[str, _limit("cpus"), _number("number")]] = None
    pids: Written[Annotated[str, _limit("pids"), _number("integer")]] = None
    disk: Written[Annotated[str, _limit("disk"), WithJsonSchema({"type": "string"})]] = None

    @property
    def texts(self) -> dict[str, str]:
        """The limits that are set, by name."""
        values = {name: getattr(self, name) for name in LIMITS}
        return {name: text for name, text in values.items() if text is not None}


class ProjectSpec(Strict):
    """A project file. A key that is absent keeps its default."""

    version: Literal[1] = 1
    agents: Annotated[AtLeastOne[Agent], AfterValidator(_once)] | None = None
    agent_versions: AgentVersions = Field(default_factory=dict)
    name: Written[Title] = None
    ide: Written[Editor] = None
    base_image: Written[BaseImage] = None
    packages: Packages[Debian] = ()
    tools: Annotated[ToolsSpec, BeforeValidator(none_is_empty)] = ToolsSpec()
    dockerfile: Written[FileName] = None
    setup: Written[Script] = None
    mounts: Annotated[Listed[MountSpec], BeforeValidator(_none_is_empty_list), AfterValidator(_few_paths)] = ()
    mask: Annotated[Listed[Below], BeforeValidator(_none_is_empty_list), AfterValidator(_few_paths)] = ()
    environment: Annotated[Variables, BeforeValidator(none_is_empty)] = Field(default_factory=dict)
    browser: Browser = False
    mcp: Servers = Field(default_factory=dict)
    ports: Annotated[Listed[Port], BeforeValidator(_none_is_empty_list), AfterValidator(_distinct)] = ()
    limits: Annotated[LimitsSpec, BeforeValidator(none_is_empty)] = LimitsSpec()
    mtu: Written[Mtu] = None
    beside: Annotated[Besides, BeforeValidator(none_is_empty)] = Field(default_factory=dict)

    @property
    def build_file(self) -> str | None:
        """The name of the project's own build file."""
        return self.dockerfile

    @property
    def servers(self) -> tuple[McpServer, ...]:
        """The MCP servers; one of the project's takes the place of the browser's."""
        found = {NAME: CONTROLLERS[self.browser].server} if self.browser else {}
        return tuple((found | {name: spec.server(name) for name, spec in self.mcp.items()}).values())


# The model below each key, for hints about unknown keys.
MODELS: Mapping[str, type[BaseModel]] = {
    "": ProjectSpec,
    "limits": LimitsSpec,
    "tools": ToolsSpec,
    "mounts": MountSpec,
    "mcp": McpServerSpec,
}
