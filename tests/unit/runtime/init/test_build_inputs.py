from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.backends.verbs import Build, Cache, Freshness
from agent_sandbox.images import agent_name, base_name, proxy_name
from agent_sandbox.problems import UserError
from agent_sandbox.render.formats.header import stamped
from agent_sandbox.resources import data_root
from agent_sandbox.runtime.init.build_inputs import build_of, checked_ca, images_to_build
from agent_sandbox.runtime.init.facts import owner_of
from agent_sandbox.runtime.project.installed import open_project
from agent_sandbox.stack.naming import stack_name
from agent_sandbox.stack.recorded import Owner

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


def test_without_an_agent_the_projects_own_images_are_built(project: Path) -> None:
    expected = [proxy_name(), base_name(), agent_name(AGENTS[:1], Owner(uid=501, gid=20))]
    assert names((), None, project) == expected
    assert names((), project, Path("/")) == expected


def test_agents_are_built_for_the_projects_owner_and_share_what_they_stand_on(project: Path) -> None:
    owner = Owner(uid=501, gid=20)
    expected = [proxy_name(), base_name(), *(agent_name((agent,), owner) for agent in AGENTS)]
    assert names(AGENTS, None, project) == expected


def test_before_init_an_agent_is_built_for_the_owner_of_the_directory(tmp_path: Path) -> None:
    expected = [proxy_name(), base_name(), agent_name(AGENTS[:1], owner_of(tmp_path))]
    assert names(AGENTS[:1], None, tmp_path) == expected


def test_nothing_to_build_names_what_could_be(tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        names((), None, tmp_path)
    expected = (
        f"{tmp_path}: no stack in this directory, and no agent was named; "
        f"agent-sandbox build AGENT, where AGENT is one of: " + ", ".join(AGENTS)
    )
    assert str(raised.value) == expected


def test_an_unknown_agent_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such agent `nobody`"):
        names(("nobody",), None, tmp_path)


def test_building_anew_uses_no_cache() -> None:
    assert build_of((), extra_ca=None) == Build(images=())
    assert build_of((), extra_ca=None, anew=True) == Build(images=(), freshness=Freshness.ALL, cache=Cache.IGNORE)


def test_a_variable_sets_the_base_image_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_SANDBOX_BASE_IMAGE", "mirror.test/debian:13")
    assert build_of((), extra_ca=None) == Build(images=(), base_image="mirror.test/debian:13")


def test_an_extra_ca_is_given_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca.pem").write_bytes(CERTIFICATE)
    monkeypatch.chdir(tmp_path)
    assert build_of((), extra_ca=Path("ca.pem")).extra_ca == tmp_path / "ca.pem"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x30\x82", "not a PEM certificate; it must contain `-----BEGIN CERTIFICATE-----`"),
        (CERTIFICATE + b"-----BEGIN PRIVATE KEY-----\n", "contains a private key, which must not be in a build; use"),
        (None, "cannot read the extra CA: No such file or directory"),
    ],
)
def test_an_extra_ca_that_is_none_is_refused_before_the_build(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError) as raised:
        checked_ca(file)
    assert str(raised.value).startswith(f"{file}: {problem}")
