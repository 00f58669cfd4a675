"""How to fix an engine that is missing or does not answer: one command or click for each fault and platform."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from agent_sandbox.engines.compose import platforms
from agent_sandbox.engines.compose.platforms import DOCKERS_PACKAGES, Platform, Surroundings, platform_of

MANUAL = "see https://docs.docker.com/engine/install/"


class Need(StrEnum):
    """A requirement that is not met."""

    COMMAND = "the docker command"
    RUNNING = "a running engine"
    PERMISSION = "permission to use the engine"
    COMPOSE = "the compose plugin"
    BUILDX = "the buildx plugin"
    CONTEXT = "an existing context"
    REACHABLE = "an engine that can be reached"
    NEWER = "a newer engine"
    SPACE = "disk space"


class Packages(NamedTuple):
    """The commands that install, or update, the parts of an engine on Linux."""

    engine: str
    compose: str
    buildx: str


UNKNOWN = Packages(MANUAL, MANUAL, MANUAL)
# By the names from `read_distribution`; the first one that has a row is used.
PACKAGES: Mapping[str, Packages] = {
    **dict.fromkeys(("debian11", "debian12"), UNKNOWN),  # without compose v2
    "docker": Packages(
        "sudo apt install docker-ce docker-ce-cli docker-compose-plugin docker-buildx-plugin",
        "sudo apt install docker-compose-plugin",
        "sudo apt install docker-buildx-plugin",
    ),
    "ubuntu": Packages(
        "sudo apt install docker.io docker-compose-v2 docker-buildx",
        "sudo apt install docker-compose-v2",
        "sudo apt install docker-buildx",
    ),
    "debian": Packages(
        "sudo apt install docker.io docker-cli docker-compose docker-buildx",
        "sudo apt install docker-compose",
        "sudo apt install docker-buildx",
    ),
    "fedora": Packages(
        "sudo dnf install moby-engine docker-cli docker-compose docker-buildx",
        "sudo dnf install docker-compose",
        "sudo dnf install docker-buildx",
    ),
    "arch": Packages(
        "sudo pacman -S docker docker-compose docker-buildx",
        "sudo pacman -S docker-compose",
        "sudo pacman -S docker-buildx",
    ),
}

JOIN = "sudo usermod -aG docker $USER, then log out and in again"
INTEGRATE = "in Docker Desktop on Windows, turn on this distribution in Settings > Resources > WSL integration"
UPDATE_DESKTOP = "update Docker Desktop: Settings > Software updates"
UPDATE_ORBSTACK = "update OrbStack: orb update"
BREW = (
    "brew install docker-{0} && mkdir -p ~/.docker/cli-plugins"
    " && ln -sfn $(brew --prefix)/opt/docker-{0}/bin/docker-{0} ~/.docker/cli-plugins/"
)
INSTALL_ON_MAC = "brew install colima docker docker-compose docker-buildx && colima start (or install Docker Desktop)"
LISTED = "docker context ls lists the contexts, and docker context use NAME selects one"
PRUNE = "docker builder prune removes the cache of earlier builds, docker system df shows what else is used"

# `{engine}`, `{compose}` and `{buildx}` are the commands of the distribution.
REMEDIES: Mapping[Need, Mapping[Platform, str]] = {
    Need.COMMAND: {
        Platform.LINUX: f"{{engine}}; then {JOIN}",
        Platform.ROOTLESS: "{engine}",
        Platform.WSL: f"{INTEGRATE}; then open a new terminal",
        Platform.DESKTOP_LINUX: "systemctl --user start docker-desktop",
        Platform.DESKTOP_MAC: "open -a Docker; it adds the docker command when it starts",
        Platform.COLIMA: "brew install docker docker-compose docker-buildx",
        Platform.ORBSTACK: "open -a OrbStack; it adds the docker command when it starts",
        Platform.MACOS: INSTALL_ON_MAC,
        Platform.REMOTE: "{engine}",
    },
    Need.RUNNING: {
        Platform.LINUX: "sudo systemctl start docker",
        Platform.ROOTLESS: "systemctl --user start docker",
        Platform.WSL: f"start Docker Desktop on Windows ({INTEGRATE}), or sudo service docker start",
        Platform.DESKTOP_LINUX: "systemctl --user start docker-desktop",
        Platform.DESKTOP_MAC: "open -a Docker",
        Platform.COLIMA: "colima start",
        Platform.ORBSTACK: "orb start",
        Platform.MACOS: INSTALL_ON_MAC,
        Platform.REMOTE: "start it on that machine, or unset DOCKER_HOST to use the engine of this one",
    },
    Need.PERMISSION: {
        Platform.LINUX: JOIN,
        Platform.ROOTLESS: "docker context use rootless (unset DOCKER_HOST if it is set)",
        Platform.WSL: "sudo usermod -aG docker $USER, then wsl --shutdown in Windows",
        Platform.DESKTOP_LINUX: "docker context use desktop-linux",
        Platform.DESKTOP_MAC: "docker context use desktop-linux",
        Platform.COLIMA: "docker context use colima",
        Platform.ORBSTACK: "docker context use orbstack",
        Platform.MACOS: LISTED,
        Platform.REMOTE: f"on that machine: {JOIN}",
    },
    Need.COMPOSE: {
        **dict.fromkeys((Platform.LINUX, Platform.ROOTLESS, Platform.REMOTE), "{compose}"),
        Platform.WSL: f"{UPDATE_DESKTOP} on Windows; for an engine of this distribution: {{compose}}",
        **dict.fromkeys((Platform.DESKTOP_LINUX, Platform.DESKTOP_MAC), UPDATE_DESKTOP),
        **dict.fromkeys((Platform.COLIMA, Platform.MACOS), BREW.format("compose")),
        Platform.ORBSTACK: UPDATE_ORBSTACK,
    },
    Need.BUILDX: {
        **dict.fromkeys((Platform.LINUX, Platform.ROOTLESS, Platform.REMOTE), "{buildx}"),
        Platform.WSL: f"{UPDATE_DESKTOP} on Windows; for an engine of this distribution: {{buildx}}",
        **dict.fromkeys((Platform.DESKTOP_LINUX, Platform.DESKTOP_MAC), UPDATE_DESKTOP),
        **dict.fromkeys((Platform.COLIMA, Platform.MACOS), BREW.format("buildx")),
        Platform.ORBSTACK: UPDATE_ORBSTACK,
    },
    Need.CONTEXT: {
        Platform.LINUX: "docker context use default (unset DOCKER_CONTEXT if it is set)",
        Platform.ROOTLESS: "docker context use rootless (unset DOCKER_CONTEXT if it is set)",
        Platform.WSL: "docker context use default (unset DOCKER_CONTEXT if it is set)",
        Platform.DESKTOP_LINUX: "docker context use desktop-linux (unset DOCKER_CONTEXT if it is set)",
        Platform.DESKTOP_MAC: "docker context use desktop-linux (unset DOCKER_CONTEXT if it is set)",
        Platform.COLIMA: "colima start creates it; then docker context use colima",
        Platform.ORBSTACK: "orb start creates it; then docker context use orbstack",
        Platform.MACOS: LISTED,
        Platform.REMOTE: LISTED,
    },
    Need.REACHABLE: {
        **dict.fromkeys(Platform, f"check DOCKER_HOST; {LISTED}"),
        Platform.REMOTE: "ssh to that machine and run docker version there, or unset DOCKER_HOST",
    },
    Need.NEWER: {
        **dict.fromkeys((Platform.LINUX, Platform.ROOTLESS), "{engine}"),
        Platform.WSL: f"{UPDATE_DESKTOP} on Windows; for an engine of this distribution: {{engine}}",
        **dict.fromkeys((Platform.DESKTOP_LINUX, Platform.DESKTOP_MAC), UPDATE_DESKTOP),
        Platform.COLIMA: "brew upgrade colima && colima update",
        Platform.ORBSTACK: UPDATE_ORBSTACK,
        Platform.MACOS: "update the application that runs the Docker engine",
        Platform.REMOTE: "update the engine on that machine",
    },
    Need.SPACE: {
        **dict.fromkeys((Platform.LINUX, Platform.ROOTLESS, Platform.MACOS, Platform.ORBSTACK), PRUNE),
        **dict.fromkeys(
            (Platform.WSL, Platform.DESKTOP_LINUX, Platform.DESKTOP_MAC),
            f"{PRUNE}; in Docker Desktop, raise Settings > Resources > Virtual disk limit",
        ),
        Platform.COLIMA: f"{PRUNE}; colima stop && colima start --disk 100 enlarges the disk",
        Platform.REMOTE: f"on that machine: {PRUNE}",
    },
}


def remedy(need: Need, said: str = "", *, around: Surroundings | None = None) -> str:
    """Return how to fix it on this machine; the error message `said` helps to recognise the platform."""
    around = around or platforms.here()
    platform = platform_of(around, said)
    found = REMEDIES[need][platform].format(**_packages(around)._asdict())
    if need is Need.RUNNING and around.host and platform is not Platform.REMOTE:
        return f"DOCKER_HOST names this engine: unset it to use another one; or start it: {found}"
    return found


def _packages(around: Surroundings) -> Packages:
    if any(map(around.exists, DOCKERS_PACKAGES)):
        return PACKAGES["docker"]
    return next((PACKAGES[name] for name in around.distribution if name in PACKAGES), UNKNOWN)
