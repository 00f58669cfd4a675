"""Find the package registries that this machine's tools and a project's files use.

Tools run in `/`, and Python in isolated mode: a project cannot run code or pass off its settings as the user's. Its
files are read as text.
"""

import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from agent_sandbox.detect import Offer, Place, gathered, place_of, places
from agent_sandbox.features.policy.scan import naming_files
from agent_sandbox.host.process import capture
from agent_sandbox.host.program_path import in_project, program_path
from agent_sandbox.host.user_dirs import home_directory
from agent_sandbox.policy.http.request import DEFAULT_PORTS
from agent_sandbox.policyfile.resolved import TOOLS
from agent_sandbox.problems import Problem, UserError

ROOT = Path("/")
SECONDS = 20.0  # enough for a slow tool; a broken one must not hold up a start
NO_HOME = "/nonexistent"
URL = re.compile(r"https?://[^\s'\",\]]+")
MAX_BYTES = 1 << 20
# The project files that name registries, by tool.
FILES: Mapping[str, tuple[str, ...]] = {
    "debian": (),
    "node": ("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", ".npmrc", ".yarnrc*"),
    "python": ("uv.lock", "poetry.lock", "requirements*.txt", "pip.conf", "pyproject.toml", "uv.toml"),
}
PIP_INDEX = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
PIP_MORE = ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
NPM = ("npm_config_registry", "NPM_CONFIG_REGISTRY", "YARN_NPM_REGISTRY_SERVER", "YARN_REGISTRY")
APT_SUFFIXES = frozenset({".list", ".sources"})  # apt reads no others
NPM_TOOLS = ("npm", "pnpm", "yarn")  # the first that is installed answers
GO = ("GOPROXY", "GOSUMDB")
GO_LINES = re.compile(r"^(?:GOPROXY|GOSUMDB)=(.*)$", re.MULTILINE)
GO_ENV = (".config/go/env", "Library/Application Support/go/env")
CARGO_LINES = re.compile(r"^[ \t]*(?:registry|index)[ \t]*=[ \t]*\"(?:sparse\+)?(https?://[^\"]+)\"", re.MULTILINE)
CARGO_VARIABLE = re.compile(r"CARGO_REGISTRIES_\w+_INDEX")
BUNDLE_MIRROR = re.compile(r"^BUNDLE_MIRROR__[^\n]*?: (.*)$", re.MULTILINE)
GEM_SOURCE = re.compile(r"^[ \t]*- (.*)$", re.MULTILINE)
PIP_KEYS = re.compile(r"^(?:\S+\.)?(index-url|extra-index-url|find-links) *= *(.*)$", re.MULTILINE)
PIP_FILES = (".config/pip/pip.conf", ".pip/pip.conf", "Library/Application Support/pip/pip.conf")
# pip knows both: the index, and the host of the files. Python can have pip's wheel without pip being installed.
PIP_DEFAULT = """
import importlib.util, sys
if not importlib.util.find_spec('pip'):
    import ensurepip, pathlib
    bundled = pathlib.Path(ensurepip.__file__).parent / '_bundled'
    sys.path += map(str, [*bundled.glob('pip-*.whl'), *pathlib.Path('/usr/share/python-wheels').glob('pip-*.whl')])
from pip._internal.models.index import PyPI as known
print(known.simple_url, f'https://{known.file_storage_domain}/')
"""

Naming = tuple[str, Place]
Namings = Iterator[Naming]
Run = Callable[[Sequence[str]], str]


class Machine(Struct, frozen=True, kw_only=True):
    """The sources on a machine: variables, programs, and files below a root."""

    environ: Mapping[str, str]
    run: Run
    # None for an image, whose files are read with its own programs.
    root: Path | None = ROOT
    # Follows the name of each source.
    where: str = ""

    def variables(self, names: Iterable[str]) -> Namings:
        """Yield the URLs in these variables."""
        for name in names:
            yield from urls_in(name, self.environ.get(name, ""))

    def text(self, path: str) -> str:
        """Return the beginning of a file, or an empty string if it does not exist."""
        return self.run(("cat", f"/{path}")) if self.root is None else text_of(self.root / path)

    def names(self, folder: str) -> list[str]:
        """Return the sorted names of the files in a directory."""
        if self.root is None:
            return sorted(self.run(("ls", f"/{folder}")).split("\n"))
        return sorted(path.name for path in (self.root / folder).glob("*"))

    def home_text(self, path: str) -> str:
        """Return the beginning of a file of the user's home directory, empty without one."""
        home = home_directory(self.environ)
        return text_of(home / path) if home else ""

    def of_home(self, *paths: str) -> Namings:
        """Yield the URLs in these files of the user's home directory."""
        for path in paths:
            yield from ((f"~/{path}", place) for place in places(Path(path).name, self.home_text(path)))


class Named(Struct, frozen=True, kw_only=True):
    """The registries named by the machine (and `--from`), and by the project, which the agent can write."""

    machine: tuple[Naming, ...]
    project: tuple[Naming, ...] = ()

    @property
    def asked(self) -> tuple[Offer, ...]:
        """The hosts that only the project's files name, which need the user's consent."""
        known = {whole(place) for _, place in self.machine}
        return gathered(naming for naming in self.project if whole(naming[1]) not in known)

    def offers(self, taken: Collection[str] = ()) -> tuple[Offer, ...]:
        """Return the hosts that the machine names, and these of the project's."""
        known = {whole(place) for _, place in self.machine}
        more = [one for one in self.project if whole(one[1]) in known or one[1][1] in taken]
        return gathered([*self.machine, *more])


class NoRegistryError(UserError):
    """Raised if no configuration names a registry for a service."""


def whole(place: Place) -> Place:
    """Return a place with its default port if it has none."""
    scheme, host, port = place
    return scheme, host, port or DEFAULT_PORTS[scheme]


def this_machine(environ: Mapping[str, str], *, project: Path | None = None) -> Machine:
    """Return this machine, without what an agent could have written in this `project` or in one with a stack.

    No program from there is run, and no configuration from there counts, such as that of a home directory which is a
    project itself.
    """
    closed = _closed(environ, project)
    changed = tool_environment(environ, project=project)

    def run(argv: Sequence[str]) -> str:
        return answer_of(argv, environment=changed)

    kept = {name: value for name, value in environ.items() if name not in closed}
    return Machine(environ=kept, run=run, root=ROOT)


def tool_environment(environ: Mapping[str, str], *, project: Path | None = None) -> dict[str, str]:
    """Return the variables to change for a tool of the user's, so that nothing of a project is run or counts."""
    closed = _closed(environ, project)
    # Tools treat an empty variable as unset; without HOME, some ask the system for it.
    changed = {**dict.fromkeys(closed, ""), "NODE_OPTIONS": "", "PATH": program_path(environ, project=project)}
    return changed | ({"HOME": NO_HOME} if "HOME" in closed else {})


def _closed(environ: Mapping[str, str], project: Path | None) -> set[str]:
    return {name for name, value in environ.items() if value.startswith("/") and in_project(value, project)}


def answer_of(argv: Sequence[str], *, environment: Mapping[str, str]) -> str:
    """Return the output of a program run in `/` with these variables, or nothing if it is missing or fails."""
    program = shutil.which(argv[0], path=environment["PATH"])
    if program is None:
        return ""
    try:
        # Scripts such as npm look up their interpreter on PATH.
        finished = capture((program, *argv[1:]), cwd=ROOT, environment=environment, timeout=SECONDS)
    except OSError:
        return ""
    return finished.out if finished.code == 0 else ""


def registries(name: str, project: Path, machine: Machine, *, more: Sequence[Path] = ()) -> Named:
    """Return the registries of one service by source; raise NoRegistryError if there are none."""
    found = Named(
        machine=tuple(dict.fromkeys((*answers(name, machine), *_of_files(name, more)))),
        project=tuple(dict.fromkeys(_of_project(name, project))),
    )
    if not (found.machine or found.project):
        what = "no configuration on this machine or in the project names a public registry"
        hint = (
            f"configure {TOOLS[name]}, or name a file of its configuration: --from FILE; "
            "a mirror in a private network goes under `host_services` in policy.yaml"
        )
        raise NoRegistryError([Problem(where=name, what=what, hint=hint)])
    return found


def answers(name: str, machine: Machine) -> Namings:
    """Yield the registries of a service that a machine names, each with its source."""
    return ((f"{by}{machine.where}", place) for by, place in ASK[name](machine))


def image_machine(run: Run) -> Machine:
    """Return an image as a machine whose programs `run` runs; it has no variables and no home directory."""
    return Machine(environ={}, run=run, root=None, where=" in the image")


def known_places(machine: Machine) -> frozenset[Place]:
    """Return all registries that this machine's configuration names."""
    return frozenset(whole(place) for ask in ASK.values() for _, place in ask(machine))


def ask_pip(machine: Machine) -> Namings:
    """Yield the indexes of pip and uv, or pip's default."""
    python = _python(machine)
    config = PIP_KEYS.findall(machine.run((python, "-I", "-m", "pip", "config", "list")) or _pip_files(machine))
    chosen = [
        *machine.variables(PIP_INDEX),
        *(one for key, value in config if key == "index-url" for one in urls_in("pip's configuration", value)),
        *machine.of_home(".config/uv/uv.toml"),
    ]
    yield from chosen
    yield from machine.variables(PIP_MORE)
    yield from (one for key, value in config if key != "index-url" for one in urls_in("pip's configuration", value))
    if not chosen:
        yield from urls_in("pip's own default", machine.run((python, "-I", "-c", PIP_DEFAULT)))


def _pip_files(machine: Machine) -> str:
    """Return pip's configuration as its files have it, for a machine where pip is not installed."""
    return "\n".join((*map(machine.home_text, PIP_FILES), machine.text("etc/pip.conf")))


def ask_npm(machine: Machine) -> Namings:
    """Yield npm's registry, and those of scopes and Yarn in the user's files."""
    yield from machine.variables(NPM)
    yield from next(filter(None, (list(_configured(machine, tool)) for tool in NPM_TOOLS)), ())
    yield from machine.of_home(".npmrc", ".yarnrc", ".yarnrc.yml")


def npm_registry(machine: Machine) -> str:
    """Return the URL of the registry that npm, or else pnpm or Yarn, uses on a machine; "" if none says."""
    answers = (URL.search(machine.run((tool, "config", "get", "registry"))) for tool in NPM_TOOLS)
    return next((found[0] for found in answers if found), "")


def _configured(machine: Machine, tool: str) -> Namings:
    return urls_in(f"{tool}'s configuration", machine.run((tool, "config", "get", "registry")))


def ask_apt(machine: Machine) -> Namings:
    """Yield the archives of apt's sources."""
    if not re.search(r"^ID=\"?debian\"?$", machine.text("etc/os-release"), re.MULTILINE):
        return
    parts = "etc/apt/sources.list.d"
    more = (f"{parts}/{name}" for name in machine.names(parts) if Path(name).suffix in APT_SUFFIXES)
    for path in ("etc/apt/sources.list", *more):
        yield from urls_in(f"/{path}", apt_uris(Path(path).name, machine.text(path)))


def ask_go(machine: Machine) -> Namings:
    """Yield Go's module proxies and checksum database, as configured."""
    for name in GO:
        yield from urls_in(name, machine.environ.get(name, "").replace("|", ","))
    for path in GO_ENV:
        chosen = GO_LINES.findall(machine.home_text(path))
        yield from urls_in(f"~/{path}", "\n".join(chosen).replace("|", ","))


def ask_cargo(machine: Machine) -> Namings:
    """Yield the registries in Cargo's configuration."""
    for path in (".cargo/config.toml", ".cargo/config"):
        yield from urls_in(f"~/{path}", "\n".join(CARGO_LINES.findall(machine.home_text(path))))
    yield from machine.variables(name for name in sorted(machine.environ) if CARGO_VARIABLE.fullmatch(name))


def ask_maven(machine: Machine) -> Namings:
    """Yield the mirrors and repositories in Maven's settings."""
    settings = re.sub(r"<!--.*?(?:-->|\Z)", "", machine.home_text(".m2/settings.xml"), flags=re.DOTALL)
    yield from urls_in("~/.m2/settings.xml", "\n".join(re.findall(r"<url>([^<]*)</url>", settings)))


def ask_bundler(machine: Machine) -> Namings:
    """Yield Bundler's mirrors, and RubyGems' sources."""
    yield from machine.variables(name for name in sorted(machine.environ) if name.startswith("BUNDLE_MIRROR__"))
    yield from urls_in("~/.bundle/config", "\n".join(BUNDLE_MIRROR.findall(machine.home_text(".bundle/config"))))
    yield from urls_in("~/.gemrc", "\n".join(GEM_SOURCE.findall(machine.home_text(".gemrc"))))


ASK: Mapping[str, Callable[[Machine], Namings]] = {
    "debian": ask_apt,
    "go-mirror": ask_go,
    "java-mirror": ask_maven,
    "node": ask_npm,
    "python": ask_pip,
    "ruby-mirror": ask_bundler,
    "rust-mirror": ask_cargo,
}


def apt_uris(name: str, text: str) -> str:
    """Return the lines of a sources file with enabled archives."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    if name.endswith(".list"):
        return "\n".join(line for line in lines if re.match(r"deb(-src)?\s", line))
    if not name.endswith(".sources"):
        return ""
    stanzas = ("\n".join(lines)).split("\n\n")
    enabled = (stanza for stanza in stanzas if not re.search(r"^Enabled:\s*no\b", stanza, re.MULTILINE | re.IGNORECASE))
    return "\n".join(line for stanza in enabled for line in stanza.splitlines() if line.startswith("URIs:"))


def urls_in(by: str, text: str) -> Namings:
    """Yield each URL in a text, with its source."""
    return ((by, place) for url in URL.findall(text) for place in place_of(url))


def text_of(path: Path) -> str:
    """Return the beginning of a file, or an empty string if it does not exist."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _python(machine: Machine) -> str:
    """Return a Python with pip: the user's, or else ours."""
    own = "python3"
    return own if machine.root is None or machine.run((own, "-I", "-m", "pip", "--version")) else sys.executable


def names_registries(name: str, path: str) -> bool:
    """Return whether this file of a project can name registries of a resolved service."""
    last = path.rpartition("/")[2]
    return any(fnmatchcase(last, pattern) for pattern in FILES.get(name, ()))


def _of_project(name: str, project: Path) -> Namings:
    for path, text in naming_files(project).items() if name in FILES else ():
        if names_registries(name, path):
            yield from ((path, place) for place in places(path.rpartition("/")[2], text))


def _of_files(name: str, files: Sequence[Path]) -> Namings:
    for path in files:
        try:
            text = path.read_bytes()[:MAX_BYTES].decode(errors="replace")
        except OSError as error:
            raise UserError([Problem(where=str(path), what=f"cannot be read: {error.strerror}")]) from error
        yield from _said(name, path.name, text)


def _said(name: str, file: str, text: str) -> Namings:
    if name == "debian":
        return urls_in(file, apt_uris(file, text))
    return ((file, place) for place in places(file, text))
