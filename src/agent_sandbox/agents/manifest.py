"""Parse and check an agent manifest, `templates/<agent>/agent.yaml`."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, ClassVar

from msgspec import Struct

from agent_sandbox.agents.home import TAKEN
from agent_sandbox.agents.login import SHAPE as LOGIN
from agent_sandbox.agents.login import Login, faults_of_login, read_login
from agent_sandbox.agents.mcp import SHAPE as MCP
from agent_sandbox.agents.mcp import McpSettings, faults_of_mcp, read_mcp
from agent_sandbox.agents.pin import INTEGRITY, VERSION
from agent_sandbox.agents.shape import Keys, OneOf, Shape, faults
from agent_sandbox.problems import Problem, UserError

SLUG = re.compile(r"[a-z][a-z0-9-]{0,31}")
# No line breaks: values are used in build arguments, stack files and environments.
LINE = re.compile(r"[^\x00-\x1f\x7f]{1,500}")
TEXT = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f]{1,10000}")
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
PACKAGE = re.compile(r"(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*")
PROJECT = re.compile(r"[a-z0-9]([a-z0-9-]{0,63}[a-z0-9])?")
RELEASE = re.compile(r"[0-9]+(\.[0-9]+){0,4}([a-z.-][0-9A-Za-z.-]{0,31})?")
DEBIAN = re.compile(r"[a-z0-9][a-z0-9+.-]{1,63}")
URL = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?/[A-Za-z0-9._~/+%-]{1,400}")
# A line of requirements.txt: pinned versions with hashes, and nothing that could name another index or a file.
LOCK_LINE = re.compile(
    r"[A-Za-z0-9._-]+(\[[a-z0-9,_-]+\])?==[0-9A-Za-z.!+-]+( ; [^\n;\\]+)? \\"
    r"|    --hash=sha256:[0-9a-f]{64}( \\)?|#[^\n]*|"
)
SHA256 = re.compile(r"[0-9a-f]{64}")
BELOW = re.compile(r"\.?[A-Za-z0-9_][A-Za-z0-9_.-]*(/\.?[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
# As in templates/_shared/protected.yaml: a `*` matches any part of one name.
HOST_PATH = re.compile(r"[.*A-Za-z0-9_][*A-Za-z0-9_.-]*(?<!\.)(/[.*A-Za-z0-9_][*A-Za-z0-9_.-]*(?<!/\.)(?<!/\.\.))*")
# A file whose keys can be chosen, and a key.
SETTINGS_FILE = re.compile(rf"(?=.*\.(json|toml)$){BELOW.pattern}")
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
EXTENSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*(\.[A-Za-z0-9][A-Za-z0-9-]*)+")
DOWNLOAD: Mapping[str, Shape] = {"url": URL, "sha256": SHA256, "program?": BELOW}

SHAPE: Mapping[str, Shape] = {
    "name": SLUG,
    "title": LINE,
    "summary": LINE,
    "install": OneOf(
        choices={
            "npm": {"package": PACKAGE, "version": VERSION, "integrity?": INTEGRITY},
            "pypi": {"package": PROJECT, "version": RELEASE},
            "archive": {"version": RELEASE, "program": BELOW, "amd64": DOWNLOAD, "arm64": DOWNLOAD},
        },
        besides={"apt": [DEBIAN]},
    ),
    "command": [LINE],
    "version_command": [LINE],
    "unattended": {
        "arguments?": [LINE],
        "environment?": Keys(VARIABLE, "a valid variable name", LINE),
        "files?": Keys(BELOW, "a path below the home directory", TEXT),
    },
    "resume?": [LINE],
    "instructions?": BELOW,
    "state": [BELOW],
    "env?": Keys(VARIABLE, "a valid variable name", LINE),
    "services?": [SLUG],
    "providers?": [SLUG],
    "editor?": {"vscode?": [EXTENSION], "jetbrains?": [EXTENSION]},
    "settings?": {
        "files?": [BELOW],
        "keys?": Keys(SETTINGS_FILE, "a .json or .toml file below the home directory", [KEY]),
    },
    "host_reads?": [{"path": HOST_PATH, "why": LINE}],
    "mcp?": MCP,
    "login?": LOGIN,
}
# Variables that lead to the proxy, the trust store and the sandbox's own programs.
RESERVED = re.compile(
    r"AGENT_SANDBOX_.*|.*_PROXY|.*_(CA|CERT|CERTS|CAINFO|CAFILE)(_.*)?|.*_ROOTS_FILE_PATH"
    r"|HOME|PATH|LD_.*|GIT_CONFIG_.*|JAVA_TOOL_OPTIONS|NODE_OPTIONS"
)


class NpmPackage(Struct, frozen=True, kw_only=True):
    """An npm package at a pinned version; `integrity` is its hash as npm records it."""

    kind: ClassVar = "npm"
    package: str
    version: str
    integrity: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PypiPackage:
    """A PyPI package at a pinned version, with a hashed lock of the package and its dependencies."""

    kind: ClassVar = "pypi"
    package: str
    version: str
    lock: str = field(default="", repr=False)


class Download(Struct, frozen=True, kw_only=True):
    """A file to download, its SHA-256, and the program's path in it if that differs between architectures."""

    url: str
    sha256: str
    program: str = ""


class Archive(Struct, frozen=True, kw_only=True):
    """A program to download, by architecture: a `.tar.gz` with `program` in it, or else the program itself."""

    kind: ClassVar = "archive"
    version: str
    program: str
    downloads: Mapping[str, Download]


class Unattended(Struct, frozen=True, kw_only=True):
    """What makes the agent act without asking for permission.

    `run` adds the arguments and variables, except with `--agent-asks`. The files answer its first questions; each
    is copied into the home directory where the user has none.
    """

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    files: Mapping[str, str] = {}


class Settings(Struct, frozen=True, kw_only=True):
    """What `--with-settings` copies from the user's home directory: files and directories, and keys of a file."""

    files: tuple[str, ...] = ()
    keys: Mapping[str, tuple[str, ...]] = {}


class HostRead(Struct, frozen=True, kw_only=True):
    """A path of a project from which the agent, started on the host machine, would run something."""

    path: str
    why: str


class AgentManifest(Struct, frozen=True, kw_only=True):
    """One agent: how it is installed and started, what it keeps, and what it connects to."""

    name: str
    title: str
    summary: str
    install: NpmPackage | PypiPackage | Archive
    apt: tuple[str, ...] = ()
    command: tuple[str, ...]
    version_command: tuple[str, ...]
    unattended: Unattended = Unattended()
    resume: tuple[str, ...] = ()
    instructions: str = ""
    # Directories below the home directory, each a volume.
    state: tuple[str, ...]
    env: Mapping[str, str] = {}
    services: tuple[str, ...] = ()
    # Services of model providers; the user chooses among them.
    providers: tuple[str, ...] = ()
    # Extensions by the name of an editor.
    editor: Mapping[str, tuple[str, ...]] = {}
    settings: Settings = Settings()
    host_reads: tuple[HostRead, ...] = ()
    # Where it reads its MCP servers; None if it speaks no MCP.
    mcp: McpSettings | None = None
    # How its client keeps a sign-in, for `login`.
    login: Login | None = None

    @property
    def version(self) -> str:
        """The pinned version."""
        return self.install.version

    def started(self, *, asks: bool, resumes: bool = False) -> tuple[str, ...]:
        """Return the words that start the agent, for `env`: variables first."""
        mode = Unattended() if asks else self.unattended
        variables = (f"{name}={value}" for name, value in mode.environment.items())
        return (*variables, *self.command, *(self.resume if resumes else ()), *mode.arguments)

    def recipe(self) -> str:
        """Return what the image's build installs, as assignments for a shell."""
        values = {"INSTALL": self.install.kind, "PROGRAM": self.command[0]}
        match self.install:
            case NpmPackage(package=package, version=version, integrity=integrity):
                values |= {"NPM_PACKAGE": package, "NPM_VERSION": version}
                values |= {"NPM_INTEGRITY": integrity} if integrity else {}
            case Archive(program=program):
                values["ARCHIVE_PROGRAM"] = program
            case PypiPackage():
                pass
        values["VERSION_COMMAND"] = shlex.join(self.version_command)
        return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())

    def build_files(self) -> dict[str, bytes]:
        """Return the files in the build context that are this agent's."""
        files = {"apt": "".join(f"{package}\n" for package in self.apt), "recipe": self.recipe()}
        files |= {f"home/{path}": text for path, text in self.unattended.files.items()}
        match self.install:
            case PypiPackage(lock=lock):
                files["requirements.txt"] = lock
            case Archive(downloads=downloads):
                lines = (
                    f"{name} {one.sha256} {one.url} {one.program}".rstrip() + "\n" for name, one in downloads.items()
                )
                files["archive"] = "".join(lines)
            case NpmPackage():
                pass
        return {f"agents/{self.name}/{path}": text.encode() for path, text in files.items()}


def parse_manifest(document: Any, *, file: str, lock: str = "") -> AgentManifest:  # noqa: ANN401 - whatever the file holds
    """Return the manifest in a YAML document, or raise UserError with all problems; `lock` is for a PyPI package."""
    found = [*faults(document, SHAPE)] or [*_contradictions(document, lock)]
    if found:
        raise UserError(Problem(where=file, what=fault) for fault in found)
    said: Mapping[str, Any] = document
    mode = said["unattended"]
    return AgentManifest(
        name=said["name"],
        title=said["title"],
        summary=said["summary"],
        install=_install(said["install"], lock),
        apt=tuple(said["install"].get("apt", ())),
        command=tuple(said["command"]),
        version_command=tuple(said["version_command"]),
        unattended=Unattended(
            arguments=tuple(mode.get("arguments", ())),
            environment=dict(mode.get("environment", {})),
            files=dict(mode.get("files", {})),
        ),
        resume=tuple(said.get("resume", ())),
        instructions=said.get("instructions", ""),
        state=tuple(said["state"]),
        env=dict(said.get("env", {})),
        services=tuple(said.get("services", ())),
        providers=tuple(said.get("providers", ())),
        editor={name: tuple(extensions) for name, extensions in said.get("editor", {}).items()},
        settings=_settings(said.get("settings", {})),
        host_reads=tuple(HostRead(**row) for row in said.get("host_reads", ())),
        mcp=read_mcp(said["mcp"]) if "mcp" in said else None,
        login=read_login(said["login"]) if "login" in said else None,
    )


def _settings(said: Mapping[str, Any]) -> Settings:
    keys = {path: tuple(names) for path, names in said.get("keys", {}).items()}
    return Settings(files=tuple(said.get("files", ())), keys=keys)


def _install(said: Mapping[str, Any], lock: str) -> NpmPackage | PypiPackage | Archive:
    if "npm" in said:
        return NpmPackage(**said["npm"])
    if "pypi" in said:
        return PypiPackage(**said["pypi"], lock=lock)
    archive = said["archive"]
    downloads = {name: Download(**archive[name]) for name in ("amd64", "arm64")}
    return Archive(version=archive["version"], program=archive["program"], downloads=downloads)


def _contradictions(said: Mapping[str, Any], lock: str) -> Iterator[str]:
    """Yield problems of values that are valid on their own."""
    yield from _faults_of_state(said["state"])
    for name in (*said.get("env", {}), *said["unattended"].get("environment", {})):
        if RESERVED.fullmatch(name):
            yield f"the variable {name} is reserved for the sandbox"
    program = said["command"][0]
    if "/" in program or "=" in program:
        yield f"`command.0` is {program!r}; it must be the name of a program"
    if not (said.get("services") or said.get("providers")):
        yield "`services` and `providers` are both missing: the agent could not connect to anything"
    if "login" in said:
        yield from faults_of_login(said["login"], tuple(said["state"]))
    if "mcp" in said:
        yield from faults_of_mcp(said["mcp"], tuple(said["state"]))
    settings = said.get("settings", {})
    for path in (*settings.get("files", ()), *settings.get("keys", {})):
        if not any(within(path, folder) and path != folder for folder in said["state"]):
            yield f"`settings` names {path}, which is not in a directory of `state`"
    if "pypi" in said["install"]:
        yield from faults_of_lock(lock, **said["install"]["pypi"])


def faults_of_lock(text: str, package: str, version: str) -> Iterator[str]:
    """Yield what is wrong with the lock of a package: at most the first bad line, and a missing pin."""
    lines = text.splitlines()
    pinned = f"{package}=={version}"
    if not any(line.split(" ")[0] == pinned for line in lines):
        yield f"requirements.txt, beside it, does not pin {pinned}"
    for number, line in enumerate(lines, start=1):
        if not LOCK_LINE.fullmatch(line):
            yield f"requirements.txt:{number} is neither a pinned version nor a sha256 hash"
            return


def _faults_of_state(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if taken := next((one for one in TAKEN if _overlap(path, one)), None):
            yield f"`state` names {path}, but the sandbox itself mounts ~/{taken}"
    if len({path.replace("/", ".") for path in paths}) < len(set(paths)):
        yield "`state` names two paths that differ only in `/` and `.`"
    for one, other in permutations(paths, 2):
        if within(one, other):
            yield f"`state` names {one}, which is in {other}" if one != other else f"`state` names {one} twice"
            return


def within(path: str, folder: str) -> bool:
    """Return whether a path is a folder or in it."""
    return f"{path}/".startswith(f"{folder}/")


def _overlap(one: str, other: str) -> bool:
    return within(one, other) or within(other, one)
