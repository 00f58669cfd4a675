"""The registries that npm and pip use on this machine, for the build of a project's image, and for the tools inside."""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from agent_sandbox.features.policy import registries
from agent_sandbox.features.policy.registries import Machine
from agent_sandbox.features.policy.scan import naming_files
from agent_sandbox.images import NPM_REGISTRY, PIP_INDEX

PIP, UV, NPM, YARN = registries.PIP_INDEX[:1], registries.PIP_INDEX[1:], registries.NPM[:2], registries.NPM[2:3]
NPM_LINE = re.compile(r"^[ \t]*registry[ \t]*=[ \t]*(\S+)", re.MULTILINE)
YARN_LINE = re.compile(r"^npmRegistryServer:[ \t]*['\"]?([^\s'\"]+)", re.MULTILINE)
# The sandbox gets no other URL: no `@`, no query, and no path with what looks like a token.
HERE = r"(?:[^/:]*\.)?localhost(?:[:/]|\Z)|127\.|\[::1\]"
MIRROR = re.compile(rf"(?ai)https?://(?!{HERE})(?:[a-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]{{1,5}})?(?:/[a-z0-9._~+-]+)*/?")
LIKE_TOKEN = re.compile(r"(?![a-z]+\Z|[A-Z]+\Z|[0-9]+\Z)[A-Za-z0-9]{16,}")
PIP_LINE = re.compile(r"^[ \t]*index-url[ \t]*[=:][ \t]*(\S+)", re.MULTILINE)


def machine_registries(machine: Machine, wanted: Collection[str]) -> dict[str, str]:
    """Return the URLs of these build arguments, without credentials: an image's history shows its arguments."""
    found = {name: next(filter(None, map(_plain, SOURCES[name](machine))), "") for name in wanted}
    return {name: url for name, url in found.items() if url}


def npms_own_registry(machines: Iterable[Machine]) -> dict[str, str]:
    """Return the build argument for the registry that npm names on the first of these machines that has npm."""
    answers = (machine.run(("npm", "config", "get", "registry")).strip() for machine in machines)
    url = next(filter(None, map(_plain, answers)), "")
    return {NPM_REGISTRY: url} if url else {}


def mirrors_of(project: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the tools in the sandbox of a project, by this machine's configuration."""
    return mirror_variables(registries.this_machine(environ, project=project), partial(naming_files, project))


def mirror_variables(machine: Machine, files: Callable[[], Mapping[str, str]]) -> dict[str, str]:
    """Return the variables that lead the tools inside to the mirrors that the user's variables and files name.

    One of the project's `files` is stronger than the user's files, as it is outside.
    """
    found = {}
    for name, tool in INSIDE.items():
        url = _without_credentials(next((url for source in tool.sources for url in source(machine) if url), ""))
        if url and (any(_variables(machine, tool.variables)) or not _names_index(files(), tool.files)):
            found[name] = url
    if (index := found.get("PIP_INDEX_URL", "")).startswith("http:"):
        found["PIP_TRUSTED_HOST"] = urlsplit(index).netloc  # or pip ignores it
    return found


def _without_credentials(url: str) -> str:
    """Return a URL as the sandbox may see it; "" for one of this machine, or one that may contain a credential.

    >>> _without_credentials("https://ann:secret@npm.test/a/"), _without_credentials("https://npm.test/Ab3Ab3Ab3Ab3Ab3A/")
    ('https://npm.test/a/', '')
    """
    plain = _plain(url)
    host, path = urlsplit(plain)[1:3]
    parts, pieces = (*host.split("."), *path.split("/")), re.split("[^A-Za-z0-9]", path)
    told = MIRROR.fullmatch(plain) and not any(map(LIKE_TOKEN.fullmatch, pieces)) and not any(map(_is_mixed, parts))
    return plain if told else ""


def _is_mixed(part: str) -> bool:
    """Return whether a part has 16 or more characters in many short runs of one kind, as a UUID or a token has."""
    joined = re.sub("[^A-Za-z0-9]", "", part)
    return len(joined) >= 16 and len(re.findall("[a-z]+|[A-Z]+|[0-9]+", joined)) > 4


def _names_index(texts: Mapping[str, str], files: Collection[str]) -> bool:
    return any(OWN_INDEX.search(texts.get(path, "")) for path in files)


def _uv(machine: Machine) -> Iterator[str]:
    yield from (re.sub(r"\A[\w-]+=(?=http)", "", said) for said in _variables(machine, UV))  # NAME=URL
    try:
        said = tomllib.loads(machine.home_text(".config/uv/uv.toml"))
    except tomllib.TOMLDecodeError:
        return
    indexes = said["index"] if isinstance(said.get("index"), list) else []
    yield from (str(one.get("url", "")) for one in indexes if isinstance(one, dict) and one.get("default"))
    yield str(said.get("index-url", ""))


def _said(machine: Machine, names: Collection[str], line: re.Pattern[str], files: Sequence[str]) -> Iterator[str]:
    """Yield what variables, lines of files in the home directory, and lines of the machine's files name."""
    yield from _variables(machine, names)
    for path in files:
        yield from line.findall(machine.text(path[1:]) if path.startswith("/") else machine.home_text(path))


_yarn = partial(_said, names=YARN, line=YARN_LINE, files=(".yarnrc.yml",))
_npm = partial(_said, names=NPM, line=NPM_LINE, files=(".npmrc",))
_pip = partial(_said, names=PIP, line=PIP_LINE, files=(*registries.PIP_FILES, "/etc/pip.conf"))
SOURCES = {NPM_REGISTRY: _npm, PIP_INDEX: _pip}


class Tool(Struct, frozen=True):
    """Who is asked in turn for a tool's mirror, its variables, and the project's files that can name another one."""

    sources: tuple[Callable[[Machine], Iterator[str]], ...]
    variables: tuple[str, ...]
    files: tuple[str, ...] = ()


# By variable inside.
INSIDE = {
    "PIP_INDEX_URL": Tool((_pip, _uv), PIP),
    "UV_DEFAULT_INDEX": Tool((_uv, _pip), UV, ("uv.toml", "pyproject.toml")),
    "npm_config_registry": Tool((_npm,), NPM, (".npmrc",)),
    "YARN_NPM_REGISTRY_SERVER": Tool((_yarn, _npm), YARN, (".yarnrc.yml",)),
}
OWN_INDEX = re.compile(
    r"^[ \t]*(?:registry[ \t]*=|npmRegistryServer:|default[ \t]*=[ \t]*true|index-url[ \t]*=)", re.MULTILINE
)


def _variables(machine: Machine, names: Collection[str]) -> Iterator[str]:
    environ: Mapping[str, str] = machine.environ
    yield from (environ.get(name, "") for name in names)


def _plain(url: str) -> str:
    """Return an HTTP URL without user and password, "" for any other.

    >>> _plain("https://ann:secret@npm.test:8443/a/"), _plain("file:///wheels")
    ('https://npm.test:8443/a/', '')
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    if parts.scheme not in {"http", "https"} or not parts.hostname or not url.isprintable():
        return ""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
