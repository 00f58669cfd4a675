from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.engines.verbs import Build, Cache, Freshness
from agent_sandbox.features.stack.init.build_inputs import build_of, checked_ca, images_to_build
from agent_sandbox.images import agent_name, base_name, proxy_name
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.owners import owner_of
from agent_sandbox.project.render.formats.header import stamped
from agent_sandbox.resources import data_root
from agent_sandbox.stack.naming import stack_name
from agent_sandbox.stack.recorded import Owner
from certificates import make_authority

AGENTS = known_agents(data_root() / "templates")
COMPOSE = f"""\
name: NAME
x-agent-sandbox: {{agent: {AGENTS[0]}, dev: "501:20"}}
services: {{proxy: {{image: "{proxy_name()}"}}, agent: {{image: "{agent_name(AGENTS[:1], Owner(uid=501, gid=20))}"}}}}
"""
CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    (folder / ".devcontainer").mkdir(parents=True)
    (folder / ".devcontainer" / "docker-compose.yml").write_text(
        stamped(COMPOSE.replace("NAME", stack_name("app", str(folder))), comment="#")
    )
    return folder


def names(agents: tuple[str, ...], path: Path | None, cwd: Path) -> list[str]:
    images = images_to_build(agents, path, cwd=cwd, opened=lambda: open_project(path, cwd=cwd))
    return [image.name for image in images]


def test_builds_the_projects_own_images_if_no_agent_is_named(project: Path) -> None:
    expected = [proxy_name(), base_name(), agent_name(AGENTS[:1], Owner(uid=501, gid=20))]
    assert names((), None, project) == expected
    assert names((), project, Path("/")) == expected


def test_builds_named_agents_for_the_projects_owner_on_one_base_image(project: Path) -> None:
    owner = Owner(uid=501, gid=20)
    expected = [proxy_name(), base_name(), *(agent_name((agent,), owner) for agent in AGENTS)]
    assert names(AGENTS, None, project) == expected


def test_builds_an_agent_for_the_owner_of_the_directory_before_init(tmp_path: Path) -> None:
    expected = [proxy_name(), base_name(), agent_name(AGENTS[:1], owner_of(tmp_path))]
    assert names(AGENTS[:1], None, tmp_path) == expected


def test_lists_the_known_agents_if_there_is_nothing_to_build(tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        names((), None, tmp_path)
    expected = (
        f"{tmp_path}: no stack in this directory, and no agent was named; "
        f"agent-sandbox build AGENT, where AGENT is one of: " + ", ".join(AGENTS)
    )
    assert str(raised.value) == expected


def test_rejects_an_unknown_agent(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such agent `nobody`"):
        names(("nobody",), None, tmp_path)


def test_building_anew_uses_no_cache() -> None:
    assert build_of((), extra_ca=None) == Build(images=())
    assert build_of((), extra_ca=None, anew=True) == Build(images=(), freshness=Freshness.ALL, cache=Cache.IGNORE)


def test_an_environment_variable_sets_the_base_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_SANDBOX_BASE_IMAGE", "mirror.test/debian:13")
    assert build_of((), extra_ca=None) == Build(images=(), base_image="mirror.test/debian:13")


def test_converts_the_path_of_an_extra_ca_to_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca.pem").write_bytes(CERTIFICATE)
    monkeypatch.chdir(tmp_path)
    assert build_of((), extra_ca=Path("ca.pem")).extra_ca == tmp_path / "ca.pem"


def test_builds_trust_the_ca_of_the_users_policy_unless_another_one_is_named(fence: Path, tmp_path: Path) -> None:
    folder = fence / ".config" / "agent-sandbox"
    folder.mkdir(parents=True)
    make_authority(folder, ["a.test"])
    (folder / "policy.yaml").write_text("settings: {upstream: {ca: ca.crt}}\n")
    assert build_of((), extra_ca=None).extra_ca == folder / "ca.crt"
    (tmp_path / "other.pem").write_bytes(CERTIFICATE)
    assert build_of((), extra_ca=tmp_path / "other.pem").extra_ca == tmp_path / "other.pem"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x30\x82", "not a PEM certificate; it must contain `-----BEGIN CERTIFICATE-----`"),
        (CERTIFICATE + b"-----BEGIN PRIVATE KEY-----\n", "contains a private key, which must not be in a build; use"),
        (None, "cannot read the extra CA: No such file or directory"),
    ],
)
def test_rejects_an_invalid_extra_ca_before_the_build(tmp_path: Path, content: bytes | None, problem: str) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError) as raised:
        checked_ca(file)
    assert str(raised.value).startswith(f"{file}: {problem}")
