import os
from pathlib import Path

import pytest

from agent_sandbox.engines.compose.checks import users
from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.checks.users import RAISE, kernel, mapped_owner, namespace_of, outside
from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.result import CheckResult, fail, ok, warn
from agent_sandbox.project.project import Project
from agent_sandbox.stack.recorded import Owner
from fake_docker import FakeDocker
from fake_stack import with_containers
from table_tests import each

PLAIN, ROOTLESS, REMAP = (("name=seccomp",), ("name=rootless",), ("name=userns",))
OWNER = 1234


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project whose `dev` is 1234."""
    return Project(
        root=tmp_path, name="app-1", agents=("example",), owner=Owner(uid=OWNER, gid=OWNER), images=(), files=()
    )


@pytest.fixture
def host() -> EngineHost:
    return EngineHost(engine=DOCKER)


@each(
    ("options", "expected"),
    [
        (["name=seccomp,profile=builtin", "name=cgroupns"], ""),
        (["name=rootless"], "rootless"),
        (["name=userns"], "userns-remap"),
        (["name=seccomp,profile=/name=rootless"], ""),
        (None, ""),
    ],
)
def test_reads_the_kind_of_user_namespace_from_the_engines_security_options(options: object, expected: str) -> None:
    assert namespace_of({"SecurityOptions": options}) == expected


MAPS = [
    ("         0          0 4294967295\n", 1000, 1000),
    ("0 100000 65536\n", 1000, 101_000),
    ("0 1000 1\n1 100000 65536\n", 1000, 100_999),
    ("0 1000 1\n1 100000 65536\n", 0, 1000),
    ("0 300000 1000\n1000 1000 1\n1001 301001 64535\n", 1000, 1000),
    ("0 100000 1000\n", 1000, None),
    ("", 1000, None),
]


@each(("table", "uid", "expected"), MAPS)
def test_maps_a_uid_in_the_container_to_the_uid_on_the_docker_host(table: str, uid: int, expected: int | None) -> None:
    assert outside(table, uid) == expected


def looked(
    host: EngineHost,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    *,
    instances: int,
    mine: int = OWNER,
) -> CheckResult:
    host.info = {"KernelVersion": os.uname().release, "SecurityOptions": list(options)}
    file = project.root / "max_user_instances"
    file.write_text(f"{instances}\n")
    monkeypatch.setattr(users, "INSTANCES", file)
    monkeypatch.setattr(os, "getuid", lambda: mine)
    return kernel(host, project)


COUNTED = [
    (PLAIN, "no user namespace: the kernel counts what the agent uses together with other programs of uid 1234"),
    (REMAP, "userns-remap: the kernel counts the agent's inotify instances for root, not for your user"),
    (ROOTLESS, "rootless: the kernel counts the agent's inotify instances for the engine's user"),
]


@pytest.mark.parametrize(("options", "counted"), COUNTED)
def test_warns_about_few_inotify_instances_with_the_command_that_raises_the_limit(
    host: EngineHost, project: Project, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], counted: str
) -> None:
    few, many = (looked(host, project, monkeypatch, options, instances=number) for number in (128, 1024))
    assert few == warn("kernel", f"{counted}; that user has 128 inotify instances", RAISE)
    assert many == ok("kernel", f"{counted}; that user has 1024 inotify instances")


def test_accepts_few_inotify_instances_if_the_project_belongs_to_another_user(
    host: EngineHost, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ok("kernel", "the kernel counts what the agent uses for uid 1234, not for yours (1000)")
    assert looked(host, project, monkeypatch, PLAIN, instances=128, mine=1000) == expected


def test_names_the_uid_of_the_projects_owner_if_root_runs_the_check(
    host: EngineHost, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "other programs of uid 1234" in looked(host, project, monkeypatch, PLAIN, instances=128, mine=0).what


def test_an_engine_with_another_kernel_shares_no_limits(host: EngineHost, project: Project) -> None:
    host.info = {"KernelVersion": "elsewhere"}
    what = "the Docker engine runs on another kernel: the agent shares no limits with your programs"
    assert kernel(host, project) == ok("kernel", what)


def map_of(docker: FakeDocker, start: int, *, writable: bool) -> None:
    docker.says("exec firewall0000 cat /proc/self/uid_map", out=f"0 {start} 65536\n")
    docker.says("exec agent0000000 test -w /workspace", code=0 if writable else 1)
    with_containers(docker, firewall="healthy", agent="healthy")


def test_accepts_a_mapped_uid_that_owns_the_project(host: EngineHost, project: Project, docker: FakeDocker) -> None:
    owner = project.root.stat().st_uid
    map_of(docker, owner - OWNER, writable=True)
    expected = ok("owner", f"dev is uid {owner} outside (userns-remap), like the project's owner")
    assert mapped_owner(host, project, "userns-remap") == expected


def test_accepts_a_mapped_uid_that_can_write_another_users_project(
    host: EngineHost, project: Project, docker: FakeDocker
) -> None:
    owner = project.root.stat().st_uid
    map_of(docker, 100_000, writable=True)
    expected = ok("owner", f"dev is uid 101234 outside (rootless), and can write the project of uid {owner}")
    assert mapped_owner(host, project, "rootless") == expected


def test_suggests_setfacl_if_the_mapped_uid_cannot_write_the_project(
    host: EngineHost, project: Project, docker: FakeDocker
) -> None:
    owner = project.root.stat().st_uid
    map_of(docker, 100_000, writable=False)
    assert mapped_owner(host, project, "rootless") == fail(
        "owner",
        f"dev is uid 101234 outside (rootless), and cannot write the project of uid {owner}",
        f"setfacl -R -m u:101234:rwX,d:u:101234:rwX,d:u:{owner}:rwX {project.root}",
    )
