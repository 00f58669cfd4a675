"""The products that run an engine, recognised without asking it, because each needs another fix for the same fault."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from agent_sandbox.bounded_json import NotJsonError, read_json

LONGEST = 1 << 20
KERNEL = Path("/proc/sys/kernel/osrelease")
RELEASE = Path("/etc/os-release")
# apt sources of Docker's own packages, which have other names than the distribution's.
DOCKERS_PACKAGES = ("/etc/apt/sources.list.d/docker.list", "/etc/apt/sources.list.d/docker.sources")
ELSEWHERE = re.compile(r"ssh://|tcp://(?!127\.|localhost|\[::1\])|command \[ssh ")


class Platform(StrEnum):
    """The product that runs the engine, as its users call it."""

    LINUX = "Linux"
    ROOTLESS = "rootless Docker"
    WSL = "WSL 2"
    DESKTOP_LINUX = "Docker Desktop for Linux"
    DESKTOP_MAC = "Docker Desktop for Mac"
    COLIMA = "Colima"
    ORBSTACK = "OrbStack"
    MACOS = "macOS"
    REMOTE = "another machine"


class Surroundings(Struct, frozen=True, kw_only=True):
    """The facts that identify the platform on this machine. `clues` name sockets, contexts and hosts."""

    system: str = "linux"
    kernel: str = ""
    distribution: tuple[str, ...] = ()  # its name, then those that it resembles
    clues: str = ""
    host: str = ""  # the address of the engine, if DOCKER_HOST sets it
    exists: Callable[[str], bool] = lambda _path: False
    finds: Callable[[str], bool] = lambda _program: False
    uid: int = 1000


def here() -> Surroundings:
    """Return the surroundings on this machine."""
    environ, host = os.environ, os.environ.get("DOCKER_HOST", "")
    return Surroundings(
        system=sys.platform,
        kernel=_text(KERNEL),
        distribution=read_distribution(_text(RELEASE)),
        clues=" ".join((host, environ.get("DOCKER_CONTEXT", "") or _context(environ))),
        host=host,
        exists=lambda path: Path(path).exists(),
        finds=lambda program: shutil.which(program) is not None,
        uid=os.getuid(),
    )


def platform_of(around: Surroundings, said: str = "") -> Platform:
    """Return the platform by the error message `said` and the surroundings."""
    clues = f"{said} {around.clues}".lower()
    if ELSEWHERE.search(clues):
        return Platform.REMOTE
    if "microsoft" in around.kernel.lower():
        return Platform.WSL
    return _on_mac(around, clues) if around.system == "darwin" else _on_linux(around, clues)


def _on_mac(around: Surroundings, clues: str) -> Platform:
    if "orbstack" in clues or "colima" in clues:
        return Platform.ORBSTACK if "orbstack" in clues else Platform.COLIMA
    if "desktop-linux" in clues or "/.docker/run/" in clues:
        return Platform.DESKTOP_MAC
    installed = {
        Platform.DESKTOP_MAC: around.exists("/Applications/Docker.app"),
        Platform.ORBSTACK: around.exists("/Applications/OrbStack.app"),
        Platform.COLIMA: around.finds("colima"),
    }
    return next((platform for platform, found in installed.items() if found), Platform.MACOS)


def _on_linux(around: Surroundings, clues: str) -> Platform:
    if "colima" in clues:
        return Platform.COLIMA
    if "desktop-linux" in clues or "/.docker/desktop/" in clues:
        return Platform.DESKTOP_LINUX
    if "/run/user/" in clues or "rootless" in clues or around.exists(f"/run/user/{around.uid}/docker.sock"):
        return Platform.ROOTLESS
    return Platform.LINUX


def read_distribution(text: str) -> tuple[str, ...]:
    r"""Return the names in an `os-release` file, with the version first if there is one.

    >>> read_distribution('ID=linuxmint\\nID_LIKE="ubuntu debian"\\n')
    ('linuxmint', 'ubuntu', 'debian')
    """
    lines = (line.partition("=") for line in text.splitlines())
    values = {key: value.strip("\"'") for key, _, value in lines}
    version = f"{values['ID']}{values['VERSION_ID']}" if values.get("ID") and values.get("VERSION_ID") else ""
    return (*version.split(), *values.get("ID", "").split(), *values.get("ID_LIKE", "").split())


def _context(environ: Mapping[str, str]) -> str:
    folder = environ.get("DOCKER_CONFIG") or f"{environ.get('HOME', '')}/.docker"
    try:
        found = read_json(_text(Path(folder) / "config.json"))
    except NotJsonError:
        return ""
    return str(found.get("currentContext", "")) if isinstance(found, dict) else ""


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(LONGEST)
    except OSError:
        return ""
