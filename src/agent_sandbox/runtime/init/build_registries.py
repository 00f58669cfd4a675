"""The registries that npm and pip use on this machine, for the build of a project's image."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from agent_sandbox.images import NPM_REGISTRY, PIP_INDEX
from agent_sandbox.runtime.policies import registries
from agent_sandbox.runtime.policies.registries import Machine

NPM_LINE = re.compile(r"^[ \t]*registry[ \t]*=[ \t]*(\S+)", re.MULTILINE)
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


def _npm(machine: Machine) -> Iterator[str]:
    yield from _variables(machine, registries.NPM[:2])
    yield from NPM_LINE.findall(machine.home_text(".npmrc"))


def _pip(machine: Machine) -> Iterator[str]:
    yield from _variables(machine, registries.PIP_INDEX[:1])
    for text in (*map(machine.home_text, registries.PIP_FILES), machine.text("etc/pip.conf")):
        yield from PIP_LINE.findall(text)


SOURCES = {NPM_REGISTRY: _npm, PIP_INDEX: _pip}


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
