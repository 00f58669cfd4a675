from agent_sandbox.engines.compose.platforms import Platform, Surroundings
from agent_sandbox.engines.compose.remedies import PACKAGES, REMEDIES, Need, remedy
from table_tests import each

WSL = "5.15-microsoft-standard-WSL2"
AROUND = {
    Platform.LINUX: Surroundings(distribution=("pop", "ubuntu", "debian")),
    Platform.ROOTLESS: Surroundings(clues="rootless", distribution=("fedora",)),
    Platform.WSL: Surroundings(kernel=WSL, distribution=("ubuntu",)),
    Platform.DESKTOP_LINUX: Surroundings(clues="desktop-linux"),
    Platform.DESKTOP_MAC: Surroundings(system="darwin", clues="desktop-linux"),
    Platform.COLIMA: Surroundings(system="darwin", clues="colima"),
    Platform.ORBSTACK: Surroundings(system="darwin", clues="orbstack"),
    Platform.MACOS: Surroundings(system="darwin"),
    Platform.REMOTE: Surroundings(clues="ssh://host"),
}
INTEGRATE = "in Docker Desktop on Windows, turn on this distribution in Settings > Resources > WSL integration"

TOLD = [
    (
        Need.COMMAND,
        Platform.LINUX,
        (
            "sudo apt install docker.io docker-compose-v2 docker-buildx;"
            " then sudo usermod -aG docker $USER, then log out and in again"
        ),
    ),
    (Need.COMMAND, Platform.WSL, f"{INTEGRATE}; then open a new terminal"),
    (
        Need.COMMAND,
        Platform.MACOS,
        ("brew install colima docker docker-compose docker-buildx && colima start (or install Docker Desktop)"),
    ),
    (Need.RUNNING, Platform.LINUX, "sudo systemctl start docker"),
    (Need.RUNNING, Platform.ROOTLESS, "systemctl --user start docker"),
    (Need.RUNNING, Platform.WSL, f"start Docker Desktop on Windows ({INTEGRATE}), or sudo service docker start"),
    (Need.RUNNING, Platform.DESKTOP_MAC, "open -a Docker"),
    (Need.RUNNING, Platform.COLIMA, "colima start"),
    (Need.RUNNING, Platform.ORBSTACK, "orb start"),
    (Need.PERMISSION, Platform.LINUX, "sudo usermod -aG docker $USER, then log out and in again"),
    (Need.COMPOSE, Platform.ROOTLESS, "sudo dnf install docker-compose"),
    (
        Need.COMPOSE,
        Platform.COLIMA,
        (
            "brew install docker-compose && mkdir -p ~/.docker/cli-plugins"
            " && ln -sfn $(brew --prefix)/opt/docker-compose/bin/docker-compose ~/.docker/cli-plugins/"
        ),
    ),
    (Need.BUILDX, Platform.ORBSTACK, "update OrbStack: orb update"),
    (Need.CONTEXT, Platform.DESKTOP_MAC, "docker context use desktop-linux (unset DOCKER_CONTEXT if it is set)"),
    (Need.REACHABLE, Platform.REMOTE, "ssh to that machine and run docker version there, or unset DOCKER_HOST"),
    (
        Need.SPACE,
        Platform.COLIMA,
        (
            "docker builder prune removes the cache of earlier builds, docker system df shows what else is used;"
            " colima stop && colima start --disk 100 enlarges the disk"
        ),
    ),
]


@each(("need", "platform", "expected"), TOLD)
def test_suggests_the_remedy_of_the_platform(need: Need, platform: Platform, expected: str) -> None:
    assert remedy(need, around=AROUND[platform]) == expected


@each("need", Need)
def test_each_need_has_a_one_line_remedy_for_every_platform(need: Need) -> None:
    said = {platform: remedy(need, around=AROUND[platform]) for platform in Platform}
    assert list(REMEDIES[need]) != []
    assert [platform for platform, text in said.items() if not text or "\n" in text or "{" in text] == []


@each(
    ("distribution", "expected"),
    [
        (("debian13", "debian"), "debian"),
        (("debian12", "debian"), "debian12"),
        (("linuxmint", "ubuntu", "debian"), "ubuntu"),
        (("manjaro", "arch"), "arch"),
    ],
)
def test_names_the_packages_of_the_distribution_or_of_dockers_own_repository(
    distribution: tuple[str, ...], expected: str
) -> None:
    around = Surroundings(distribution=distribution)
    assert remedy(Need.COMPOSE, around=around) == PACKAGES[expected].compose
    own = Surroundings(distribution=distribution, exists=lambda path: path.endswith("docker.list"))
    assert remedy(Need.COMPOSE, around=own) == "sudo apt install docker-compose-plugin"


def test_links_to_the_manual_for_an_unknown_distribution() -> None:
    around = Surroundings(distribution=("plan9",))
    assert remedy(Need.BUILDX, around=around) == "see https://docs.docker.com/engine/install/"


def test_the_error_message_takes_precedence_over_the_environment() -> None:
    said = "Cannot connect to the Docker daemon at unix:///run/user/1000/docker.sock."
    assert remedy(Need.RUNNING, said, around=AROUND[Platform.LINUX]) == "systemctl --user start docker"


def test_names_docker_host_where_its_engine_does_not_answer() -> None:
    around = Surroundings(host="unix:///tmp/none.sock")
    said = "DOCKER_HOST names this engine: unset it to use another one; or start it: sudo systemctl start docker"
    assert remedy(Need.RUNNING, around=around) == said
