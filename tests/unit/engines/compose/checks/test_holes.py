import json
import re

from agent_sandbox.engines.compose.checks.holes import Hole, holes, known_holes, running
from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.checks.version import Version
from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.result import ok, warn
from fake_docker import FakeDocker
from table_tests import each

HOLE = Hole(component="x", cve="CVE-2025-1", fixed=((1, 2, 8), (1, 3, 3)), since=(1, 1, 0), what="y")
COMPONENTS = [{"Name": "Engine", "Version": "28.5.0"}, {"Name": "runc", "Version": "1.1.12+ds1"}]


def engine(docker: FakeDocker, platform: str = "") -> EngineHost:
    server = {"Version": "28.5.0", "Platform": {"Name": platform}, "Components": COMPONENTS}
    docker.says("version --format", out=json.dumps({"Client": {}, "Server": server}))
    docker.says("compose version", out="v2.40.2\n")
    return EngineHost(engine=DOCKER)


@each(
    ("version", "expected"),
    [
        ((1, 0, 9), False),
        ((1, 1, 0), True),
        ((1, 2, 7), True),
        ((1, 2, 8), False),
        ((1, 2, 9), False),
        ((1, 3, 2), True),
        ((1, 3, 3), False),
        ((1, 4, 0), False),
        ((), False),
    ],
)
def test_a_hole_is_in_all_versions_since_its_first_up_to_the_fix_in_each_series(
    version: Version, *, expected: bool
) -> None:
    assert HOLE.is_in(version) is expected


def test_warns_about_each_hole_with_its_cve_and_the_fixed_versions(docker: FakeDocker) -> None:
    found = list(holes(engine(docker)))
    assert found[0] == warn(
        "holes",
        "runc 1.1.12+ds1 has CVE-2025-31133: a container writes to the host's /proc by swapping a masked path",
        "update runc to 1.2.8, 1.3.3 or newer; your distribution may have fixed it in this version",
    )
    assert [result.what.split(":")[0] for result in found[1:3]] == [
        "runc 1.1.12+ds1 has CVE-2025-52565",
        "runc 1.1.12+ds1 has CVE-2025-52881",
    ]
    assert found[3:] == [ok("holes", "none known in engine 28.5.0, compose v2.40.2")]


def test_recognises_docker_desktop_by_its_platform_name(docker: FakeDocker) -> None:
    host = engine(docker, "Docker Desktop 4.44.2 (202017)")
    assert running(host)["desktop"] == "4.44.2 (202017)"
    assert "desktop 4.44.2 (202017) has CVE-2025-9074" in [result.what.split(":")[0] for result in holes(host)]


def test_every_row_of_the_table_is_complete() -> None:
    for hole in known_holes():
        assert hole.component in {"engine", "containerd", "runc", "compose", "desktop"}
        assert re.fullmatch(r"CVE-20\d\d-\d{4,}", hole.cve)
        assert hole.fixed
        assert all(len(version) == 3 for version in hole.fixed)
        assert hole.what
