import json
from pathlib import Path

import pytest

from agent_sandbox.engines.compose.platforms import Platform, Surroundings, here, platform_of, read_distribution
from table_tests import each

MAC = "darwin"
WSL = "5.15.167.4-microsoft-standard-WSL2"
CANNOT = "Cannot connect to the Docker daemon at unix://{}. Is the docker daemon running?"

SEEN = [
    (Platform.LINUX, Surroundings(), ""),
    (Platform.LINUX, Surroundings(clues="default"), CANNOT.format("/var/run/docker.sock")),
    (Platform.LINUX, Surroundings(clues="tcp://127.0.0.1:2375"), ""),
    (Platform.ROOTLESS, Surroundings(exists="/run/user/1000/docker.sock".__eq__), ""),
    (Platform.ROOTLESS, Surroundings(), CANNOT.format("/run/user/1000/docker.sock")),
    (Platform.ROOTLESS, Surroundings(clues="rootless"), ""),
    (Platform.DESKTOP_LINUX, Surroundings(clues="desktop-linux"), ""),
    (Platform.DESKTOP_LINUX, Surroundings(), CANNOT.format("/home/u/.docker/desktop/docker.sock")),
    (Platform.COLIMA, Surroundings(clues="colima"), ""),
    (Platform.WSL, Surroundings(kernel=WSL), ""),
    (Platform.WSL, Surroundings(kernel=WSL, clues="desktop-linux"), ""),
    (Platform.REMOTE, Surroundings(kernel=WSL, clues="ssh://h"), ""),
    (Platform.REMOTE, Surroundings(clues="ssh://u@h default"), ""),
    (Platform.REMOTE, Surroundings(clues="tcp://192.0.2.1:2376"), ""),
    (Platform.REMOTE, Surroundings(system=MAC), "error during connect: command [ssh -- h docker system dial-stdio]"),
    (Platform.MACOS, Surroundings(system=MAC), ""),
    (Platform.DESKTOP_MAC, Surroundings(system=MAC, exists="/Applications/Docker.app".__eq__), ""),
    (Platform.DESKTOP_MAC, Surroundings(system=MAC, clues="desktop-linux"), ""),
    (Platform.DESKTOP_MAC, Surroundings(system=MAC), CANNOT.format("/Users/u/.docker/run/docker.sock")),
    (Platform.ORBSTACK, Surroundings(system=MAC, exists="/Applications/OrbStack.app".__eq__), ""),
    (Platform.ORBSTACK, Surroundings(system=MAC), CANNOT.format("/Users/u/.orbstack/run/docker.sock")),
    (Platform.COLIMA, Surroundings(system=MAC, finds="colima".__eq__), ""),
    (Platform.COLIMA, Surroundings(system=MAC), CANNOT.format("/Users/u/.colima/default/docker.sock")),
    # The user's choice takes precedence over what is installed.
    (Platform.COLIMA, Surroundings(system=MAC, clues="colima", exists=lambda _path: True), ""),
]  # fmt: skip


@each(("expected", "around", "said"), SEEN)
def test_platform_is_recognised_without_an_engine(expected: Platform, around: Surroundings, said: str) -> None:
    assert platform_of(around, said) is expected


def test_every_platform_can_be_recognised() -> None:
    assert {row[0] for row in SEEN} == set(Platform)


@each(
    ("text", "expected"),
    [
        ("", ()),
        ('ID=debian\nVERSION_ID="13"\n', ("debian13", "debian")),
        ("VERSION_ID=13\n", ()),
        ("ID='pop'\nID_LIKE=\"ubuntu debian\"\n", ("pop", "ubuntu", "debian")),
        ("no equals sign\nID=arch", ("arch",)),
    ],
)
def test_reads_the_distribution_and_its_relatives(text: str, expected: tuple[str, ...]) -> None:
    assert read_distribution(text) == expected


@pytest.mark.parametrize(
    ("config", "clues"),
    [
        (json.dumps({"currentContext": "orbstack"}), " orbstack"),
        (json.dumps(["orbstack"]), " "),
        ("no json", " "),
        (None, " "),
    ],
)
def test_reads_the_current_context_from_docker_config_unless_docker_context_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str | None, clues: str
) -> None:
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    assert here().clues == clues
    monkeypatch.setenv("DOCKER_CONTEXT", "colima")
    assert here().clues == " colima"
