import json
import os
from pathlib import Path

import pytest

from agent_sandbox import __version__
from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.policy import registries
from agent_sandbox.features.policy.unmounted_layers import unmounted_layers
from agent_sandbox.features.proxy.commands.reload import reload
from agent_sandbox.features.stack.commands import build as module
from agent_sandbox.features.stack.commands.build import build
from agent_sandbox.features.stack.update_stack import updated
from agent_sandbox.features.trust.prompt import unseen_in
from agent_sandbox.features.trust.trust_gate import open_trusted
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import foreign_images, read_facts
from agent_sandbox.project.render.formats.faithful import load_yaml
from agent_sandbox.project.render.formats.header import stamped
from agent_sandbox.project.render.paths import POLICY, PROJECT_FILE, STACK
from fake_docker import FakeDocker
from fake_stack import trust, with_containers
from init_project import AGENT
from run_cli import Ask


@pytest.fixture
def older(empty_project: Path, ask: Ask) -> Path:
    """Return a trusted project whose stack version 0.0.1 made."""
    assert ask("init", AGENT).code == 0
    file = empty_project / STACK
    body = file.read_text().replace(f":{__version__}", ":0.0.1")
    file.write_text(stamped(body.partition("\n\n")[2], comment="#"))
    trust(empty_project)
    return empty_project


def test_a_start_updates_the_stack_of_another_version_without_a_question(
    older: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = open_trusted(None, cwd=older)
    assert len(foreign_images(project)) == 2
    policy = (older / POLICY).read_text()
    assert foreign_images(updated(project, quiet=False)) == ()
    assert capsys.readouterr() == ("", f"updated {STACK} to agent-sandbox {__version__}\n")
    assert unseen_in(older, os.environ) == ()
    assert (older / POLICY).read_text() == policy


def test_leaves_an_edited_stack_of_another_version_to_the_user(older: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (older / STACK).open("a") as file:
        file.write("# mine\n")
    trust(older)
    before = (older / STACK).read_text()
    project = open_trusted(None, cwd=older)
    assert updated(project, quiet=False) == project
    assert capsys.readouterr() == ("", "")
    assert (older / STACK).read_text() == before


def test_a_start_applies_an_edited_project_file_once_it_is_trusted(
    empty_project: Path, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("init", AGENT, "--memory", "3g").code == 0
    (empty_project / PROJECT_FILE).write_text("limits: {memory: 2g, cpus: 64}\n")
    with pytest.raises(UserError, match=f"not trusted yet: {PROJECT_FILE}"):
        open_trusted(None, cwd=empty_project)
    (empty_project / PROJECT_FILE).write_text("limits: {memory: 2g, cpus: 1}\n")
    capsys.readouterr()
    project = updated(open_trusted(None, cwd=empty_project), quiet=False)
    assert capsys.readouterr() == ("", f"updated {STACK} to match {PROJECT_FILE}\n")
    assert "mem_limit: 2g" in project.files[0].read_text()
    assert unseen_in(empty_project, os.environ) == ()


@pytest.mark.parametrize("less", [None, "packages: [jq]\n", "limits: {memory: 2g}\n"])
def test_a_start_applies_a_project_file_that_asks_for_less(empty_project: Path, ask: Ask, less: str | None) -> None:
    assert ask("init", AGENT).code == 0
    file = empty_project / PROJECT_FILE
    file.write_text("packages: [jq, tree]\nbase_image: mirror.example/debian:13\n")
    trust(empty_project)
    updated(open_trusted(None, cwd=empty_project), quiet=True)
    file.unlink() if less is None else file.write_text(less)
    project = updated(open_trusted(None, cwd=empty_project), quiet=True)
    assert (foreign_images(project), project.base_image) == ((), "")
    assert project.made_of == ({} if less is None else {PROJECT_FILE: less})


def test_an_edited_stack_keeps_a_project_file_from_being_applied(empty_project: Path, ask: Ask) -> None:
    assert ask("init", AGENT).code == 0
    with (empty_project / STACK).open("a") as file:
        file.write("# mine\n")
    (empty_project / PROJECT_FILE).write_text("limits: {memory: 2g}\n")
    trust(empty_project)
    with pytest.raises(UserError) as error:
        updated(open_trusted(None, cwd=empty_project), quiet=False)
    assert str(error.value) == (
        f"{empty_project / PROJECT_FILE}: not applied; agent-sandbox init shows what keeps {STACK} from being updated"
    )


def test_a_start_mounts_a_policy_of_the_user_that_came_later(
    empty_project: Path, ask: Ask, fenced: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("init", AGENT).code == 0
    (fenced / "etc").mkdir()
    (fenced / "etc" / "policy.yaml").write_text("deny: [a.test]")
    project = updated(open_trusted(None, cwd=empty_project), quiet=False)
    assert capsys.readouterr().err.endswith(f"updated {STACK} to mount the policies of this machine\n")
    assert unmounted_layers(project, os.environ) == ()
    written = (empty_project / STACK).stat()
    assert unseen_in(empty_project, os.environ) == ()
    assert updated(project, quiet=False).root == project.root
    assert ((empty_project / STACK).stat(), capsys.readouterr().err) == (written, "")


def test_a_reload_recreates_the_proxy_with_a_new_layer(
    empty_project: Path, ask: Ask, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("init", AGENT).code == 0
    docker.says("agent_sandbox.proxy reload", out=json.dumps({"ok": True, "digest": "0123456789abcdef"}))
    docker.says("up --detach")
    with_containers(docker, proxy="healthy", agent="healthy")
    new_layer(empty_project.parent / "home")
    capsys.readouterr()
    assert exit_code(reload) == 0
    loaded = "policy loaded, digest 0123456789ab"
    assert capsys.readouterr().err == f"updated {STACK} to mount the policies of this machine\n{loaded}\n"
    started = [call for call in docker.calls if " up " in call]
    assert [call.partition(" up ")[2] for call in started] == ["--detach --no-build --wait --wait-timeout 120 proxy"]
    assert exit_code(reload) == 0
    assert [call for call in docker.calls if " up " in call] == started


def test_a_reload_does_not_load_a_policy_without_a_new_layer_of_it(
    empty_project: Path, ask: Ask, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("init", AGENT).code == 0
    with (empty_project / STACK).open("a") as file:
        file.write("# mine\n")
    trust(empty_project)
    with_containers(docker, proxy="healthy", agent="healthy")
    new_layer(empty_project.parent / "home")
    capsys.readouterr()
    assert exit_code(reload) == 1
    hint = f"agent-sandbox init {AGENT} shows what keeps it from being updated"
    assert capsys.readouterr().err == f"error: {STACK}: not updated for a new layer of the policy\n  hint: {hint}\n"
    assert not any(" reload" in call for call in docker.calls)


def test_a_start_leads_the_tools_to_a_mirror_that_the_user_configured_since(
    empty_project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "npm_config_registry", "NPM_CONFIG_REGISTRY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(registries, "ROOT", empty_project)
    assert ask("init", AGENT).code == 0
    capsys.readouterr()

    def up() -> tuple[object, object]:
        said = read_facts(updated(open_trusted(None, cwd=empty_project), quiet=False).root).environment
        return said.get("PIP_INDEX_URL"), said.get("UV_DEFAULT_INDEX")

    assert up() == (None, None)
    monkeypatch.setenv("PIP_INDEX_URL", "https://ann:pw@mirror.test/simple")
    assert up() == ("https://mirror.test/simple", "https://mirror.test/simple")
    assert capsys.readouterr() == ("", f"updated {STACK} to use your mirror of packages\n")
    (empty_project / PROJECT_FILE).write_text("environment: {PIP_INDEX_URL: https://own.test/simple}\n")
    trust(empty_project)
    assert up() == ("https://own.test/simple", "https://mirror.test/simple")
    capsys.readouterr()
    assert up() == ("https://own.test/simple", "https://mirror.test/simple")
    monkeypatch.delenv("PIP_INDEX_URL")
    assert up() == ("https://own.test/simple", "https://mirror.test/simple")
    assert capsys.readouterr() == ("", "")


def test_the_mtu_of_the_project_file_is_that_of_the_proxys_way_out_alone(empty_project: Path, ask: Ask) -> None:
    assert ask("init", AGENT).code == 0
    (empty_project / PROJECT_FILE).write_text("mtu: 1280\n")
    project = updated(open_trusted(None, cwd=empty_project), quiet=True)  # it asks for nothing more
    networks = load_yaml((project.root / STACK).read_text())["networks"]
    assert networks["egress"]["driver_opts"] == {"com.docker.network.driver.mtu": "1280"}
    assert "com.docker.network.driver.mtu" not in networks["sandbox"]["driver_opts"]


def new_layer(home: Path) -> None:
    (home / ".config" / "agent-sandbox").mkdir(parents=True)
    (home / ".config" / "agent-sandbox" / "policy.yaml").write_text("deny: [a.test]\n")


def test_does_not_write_a_stack_of_this_version(empty_project: Path, ask: Ask) -> None:
    assert ask("init", AGENT).code == 0
    before = (empty_project / STACK).stat()
    updated(open_trusted(None, cwd=empty_project), quiet=False)
    assert (empty_project / STACK).stat() == before


def test_the_command_that_editors_run_first_updates_the_stack(
    older: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert older.exists()
    monkeypatch.setattr(module, "execute", lambda *_, **__: None)
    assert exit_code(build) == 1
    assert "the stack was made by another version of agent-sandbox" in capsys.readouterr().err
    assert exit_code(lambda: build(editor=True)) == 0
    assert capsys.readouterr().err == f"updated {STACK} to agent-sandbox {__version__}\n"
