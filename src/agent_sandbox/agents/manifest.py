"""The model of an agent manifest, `templates/<agent>/agent.yaml`."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Annotated, Any, Self, override

from pydantic import BaseModel, Field, PrivateAttr, model_validator

from agent_sandbox.agents.fields import BELOW, WITHOUT_DOTS, Below, Fault, Key, Line, Slug, Variable
from agent_sandbox.agents.home import TAKEN, within
from agent_sandbox.agents.login import Expiry, Login, Refresh, Token
from agent_sandbox.agents.mcp import McpSettings
from agent_sandbox.agents.pin import INTEGRITY, VERSION
from agent_sandbox.policy.file.fields import AtLeastOne, Strict, Written
from agent_sandbox.policyfile.parse.checking import WORDS, invalid, matching, unknown_key, validated, where_is
from agent_sandbox.policyfile.text.document import parse_document
from agent_sandbox.policyfile.text.scalars import plain_or_decimal
from agent_sandbox.problems import Problem, UserError

TEXT = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f]{1,10000}")
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
# As in templates/_shared/protected.yaml: a `*` matches any part of one name.
HOST_PATH = re.compile(r"[.*A-Za-z0-9_][*A-Za-z0-9_.-]*(?<!\.)(/[.*A-Za-z0-9_][*A-Za-z0-9_.-]*(?<!/\.)(?<!/\.\.))*")
# A file whose keys can be chosen.
SETTINGS_FILE = re.compile(rf"(?=.*\.(json|toml)$){BELOW.pattern}")
EDITOR = re.compile("vscode|jetbrains")
EXTENSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*(\.[A-Za-z0-9][A-Za-z0-9-]*)+")
# Variables that lead to the proxy, the trust store and the sandbox's own programs.
RESERVED = re.compile(
    r"AGENT_SANDBOX_.*|.*_PROXY|.*_(CA|CERT|CERTS|CAINFO|CAFILE)(_.*)?|.*_ROOTS_FILE_PATH"
    r"|HOME|PATH|LD_.*|GIT_CONFIG_.*|JAVA_TOOL_OPTIONS|NODE_OPTIONS"
)

Text = Annotated[str, matching(TEXT, "text", "use up to 10000 characters, without control characters")]
Package = Annotated[str, matching(PACKAGE, "a package of npm", "write `NAME` or `@SCOPE/NAME`")]
Version = Annotated[str, matching(VERSION, "a pinned version", "write `1.2.3`")]
Integrity = Annotated[str, matching(INTEGRITY, "a hash of a package", "write `sha512-...`, as npm records it")]
PypiName = Annotated[str, matching(PROJECT, "a package of PyPI", "use `a-z`, `0-9` and `-`")]
Release = Annotated[str, matching(RELEASE, "a pinned version", "write `1.2.3`")]
Debian = Annotated[str, matching(DEBIAN, "a Debian package", "write its name")]
Url = Annotated[str, matching(URL, "the URL of a file", "write `https://HOST/PATH`")]
Sha256 = Annotated[str, matching(SHA256, "a SHA-256", "write 64 of `0-9` and `a-f`")]
SettingsFile = Annotated[str, matching(SETTINGS_FILE, "a .json or .toml file below the home directory", WITHOUT_DOTS)]
Editor = Annotated[str, matching(EDITOR, "an editor", "write `vscode` or `jetbrains`")]
Extension = Annotated[str, matching(EXTENSION, "an extension of an editor", "write `PUBLISHER.NAME`")]
HostPath = Annotated[str, matching(HOST_PATH, "a path in a project", "write it without `..`, from the project's root")]


class NpmPackage(Strict):
    """An npm package at a pinned version; `integrity` is its hash as npm records it."""

    package: Package
    version: Version
    integrity: Integrity = ""


class PypiPackage(Strict):
    """A PyPI package at a pinned version, with a hashed lock of the package and its dependencies."""

    package: PypiName
    version: Release
    _lock: str = PrivateAttr("")

    @override
    def model_post_init(self, context: Any) -> None:
        """Keep the lock, which is in a file beside the manifest."""
        self._lock = (context or {}).get("lock", "")

    @property
    def lock(self) -> str:
        """The content of requirements.txt."""
        return self._lock


class Download(Strict):
    """A file to download, its SHA-256, and the program's path in it if that differs between architectures."""

    url: Url
    sha256: Sha256
    program: Below = ""


class Archive(Strict):
    """A program to download, by architecture: a `.tar.gz` with `program` in it, or else the program itself."""

    version: Release
    program: Below
    amd64: Download
    arm64: Download

    @property
    def downloads(self) -> Mapping[str, Download]:
        """The download for each architecture."""
        return {"amd64": self.amd64, "arm64": self.arm64}


class Install(Strict):
    """How the agent is installed: exactly one kind of package, and Debian packages that it needs."""

    npm: Written[NpmPackage] = None
    pypi: Written[PypiPackage] = None
    archive: Written[Archive] = None
    apt: AtLeastOne[Debian] = ()

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if len(self.model_fields_set - {"apt"}) != 1:
            raise invalid("`install` must have exactly one of npm, pypi, archive", "keep one of them")
        return self

    @property
    def kind(self) -> str:
        """`npm`, `pypi` or `archive`."""
        return next(iter(self.model_fields_set - {"apt"}))


class Unattended(Strict):
    """What makes the agent act without asking for permission.

    `run` adds the arguments and variables, except with `--agent-asks`. The files answer its first questions; each
    is copied into the home directory where the user has none.
    """

    arguments: AtLeastOne[Line] = ()
    environment: dict[Variable, Line] = Field(default_factory=dict)
    files: dict[Below, Text] = Field(default_factory=dict)


class Settings(Strict):
    """What `--with-settings` copies from the user's home directory: files and directories, and keys of a file."""

    files: AtLeastOne[Below] = ()
    keys: dict[SettingsFile, AtLeastOne[Key]] = Field(default_factory=dict)


class HostReadSpec(Strict):
    """A path of a project from which the agent, started on the host machine, would run something."""

    path: HostPath
    why: Line


class AgentManifest(Strict):
    """One agent: how it is installed and started, what it keeps, and what it connects to."""

    name: Slug
    title: Line
    summary: Line
    install: Install
    command: AtLeastOne[Line]
    version_command: AtLeastOne[Line]
    unattended: Unattended
    resume: AtLeastOne[Line] = ()
    instructions: Below = ""
    # Directories below the home directory, each a volume.
    state: AtLeastOne[Below]
    env: dict[Variable, Line] = Field(default_factory=dict)
    services: AtLeastOne[Slug] = ()
    # Services of model providers; the user chooses among them.
    providers: AtLeastOne[Slug] = ()
    # Extensions by the name of an editor.
    editor: dict[Editor, AtLeastOne[Extension]] = Field(default_factory=dict)
    settings: Settings = Settings()
    host_reads: AtLeastOne[HostReadSpec] = ()
    # Where it reads its MCP servers; None if it speaks no MCP.
    mcp: Written[McpSettings] = None
    # How its client keeps a sign-in, for `login`.
    login: Written[Login] = None

    @property
    def version(self) -> str:
        """The pinned version."""
        version: str = getattr(self.install, self.install.kind).version
        return version

    def started(self, *, asks: bool, resumes: bool = False) -> tuple[str, ...]:
        """Return the words that start the agent, for `env`: variables first."""
        mode = Unattended() if asks else self.unattended
        variables = (f"{name}={value}" for name, value in mode.environment.items())
        return (*variables, *self.command, *(self.resume if resumes else ()), *mode.arguments)

    def recipe(self) -> str:
        """Return what the image's build installs, as assignments for a shell."""
        values = {"INSTALL": self.install.kind, "PROGRAM": self.command[0]}
        if npm := self.install.npm:
            values |= {"NPM_PACKAGE": npm.package, "NPM_VERSION": npm.version}
            values |= {"NPM_INTEGRITY": npm.integrity} if npm.integrity else {}
        if archive := self.install.archive:
            values["ARCHIVE_PROGRAM"] = archive.program
        values["VERSION_COMMAND"] = shlex.join(self.version_command)
        return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())

    def build_files(self) -> dict[str, bytes]:
        """Return the files in the build context that are this agent's."""
        files = {"apt": "".join(f"{package}\n" for package in self.install.apt), "recipe": self.recipe()}
        files |= {f"home/{path}": text for path, text in self.unattended.files.items()}
        if pypi := self.install.pypi:
            files["requirements.txt"] = pypi.lock
        if archive := self.install.archive:
            rows = archive.downloads.items()
            files["archive"] = "".join(
                f"{name} {one.sha256} {one.url} {one.program}".rstrip() + "\n" for name, one in rows
            )
        return {f"agents/{self.name}/{path}": text.encode() for path, text in files.items()}

    def contradictions(self) -> Iterator[Fault]:
        """Yield problems of values that are valid on their own."""
        yield from _faults_of_state(self.state)
        yield from self._reserved()
        program = self.command[0]
        if "/" in program or "=" in program:
            yield ("command", 0), f"`command.0` is {program!r}; it must be the name of a program"
        if not (self.services or self.providers):
            yield (), "`services` and `providers` are both missing: the agent could not connect to anything"
        for key, part in (("login", self.login), ("mcp", self.mcp)):
            for place, what in part.contradictions(self.state) if part else ():
                yield (key, *place), what
        yield from self._settings_elsewhere()
        if pypi := self.install.pypi:
            for what in faults_of_lock(pypi.lock, pypi.package, pypi.version):
                yield ("install", "pypi"), what

    def _reserved(self) -> Iterator[Fault]:
        for at, names in ((("env",), self.env), (("unattended", "environment"), self.unattended.environment)):
            for name in names:
                if RESERVED.fullmatch(name):
                    yield (*at, name, "[key]"), f"the variable {name} is reserved for the sandbox"

    def _settings_elsewhere(self) -> Iterator[Fault]:
        keys = ((("keys", path, "[key]"), path) for path in self.settings.keys)
        for at, path in (*((("files", number), path) for number, path in enumerate(self.settings.files)), *keys):
            if not any(within(path, folder) and path != folder for folder in self.state):
                yield ("settings", *at), f"`settings` names {path}, which is not in a directory of `state`"


# By the key above.
MODELS: Mapping[str, type[BaseModel]] = {
    "": AgentManifest,
    "install": Install,
    "npm": NpmPackage,
    "pypi": PypiPackage,
    "archive": Archive,
    "amd64": Download,
    "arm64": Download,
    "unattended": Unattended,
    "settings": Settings,
    "host_reads": HostReadSpec,
    "mcp": McpSettings,
    "login": Login,
    "tokens": Token,
    "expires": Expiry,
    "refresh": Refresh,
    "tokens/refresh": Token,
}


def parse_manifest(text: str, *, file: str, lock: str = "") -> AgentManifest:
    """Return the manifest in a YAML text, or raise UserError with all problems; `lock` is for a PyPI package."""
    document = parse_document(text, file=file, plain=plain_or_decimal)
    words = {**WORDS, "extra_forbidden": unknown_key(MODELS)}
    manifest = validated(document, file=file, model=AgentManifest, context={"lock": lock}, words=words)
    found = [Problem(where=where_is(document, file, at), what=what) for at, what in manifest.contradictions()]
    if found:
        raise UserError(found)
    return manifest


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


def _faults_of_state(paths: Sequence[str]) -> Iterator[Fault]:
    for number, path in enumerate(paths):
        if taken := next((one for one in TAKEN if within(path, one) or within(one, path)), None):
            yield ("state", number), f"`state` names {path}, but the sandbox itself mounts ~/{taken}"
    if len({path.replace("/", ".") for path in paths}) < len(set(paths)):
        yield ("state",), "`state` names two paths that differ only in `/` and `.`"
    for (number, one), (_, other) in permutations(enumerate(paths), 2):
        if within(one, other):
            what = f"`state` names {one}, which is in {other}" if one != other else f"`state` names {one} twice"
            yield ("state", number), what
            return
