from pathlib import Path

import pytest

from agent_sandbox.features.stack.init.project_file import agents_named, is_outdated, settle
from agent_sandbox.images import agent_name, base_name, proxy_name
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import images_of, own_images, read_project
from agent_sandbox.project.owners import owner_of
from agent_sandbox.project.render.paths import PROJECT_FILE, STACK
from agent_sandbox.stack.limits import DEFAULT, GIB
from agent_sandbox.stack.recorded import Ide
from init_project import Init
from project_files import FIRST, asked, record, write


def test_needs_no_project_file_without_options(tmp_path: Path) -> None:
    found = settle(tmp_path, asked(), None, title="")
    assert (found.limits, found.ide, found.title, found.text, found.changes) == (DEFAULT, Ide.VSCODE, "", None, ())
    found = settle(tmp_path, asked(), record(), title="Before")
    assert (found.limits.memory, found.ide, found.title, found.changes) == (2 * GIB, Ide.JETBRAINS, "Before", ())


def test_an_invalid_option_is_reported_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        settle(tmp_path, asked(memory="lots"), None, title="")
    assert str(error.value) == "--memory: `lots` is not a size: a number with k, m or g, as in `4g`"


def test_reads_the_agents_that_the_project_file_names(tmp_path: Path) -> None:
    assert agents_named(tmp_path) == ()
    write(tmp_path, "name: a\n")
    assert agents_named(tmp_path) == ()
    write(tmp_path, f"agents: [{FIRST}]\n")
    assert agents_named(tmp_path) == (FIRST,)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / "elsewhere").write_text("name: a\n")
    (tmp_path / PROJECT_FILE).symlink_to("../elsewhere")
    with pytest.raises(UserError, match="agent-sandbox does not follow symbolic links"):
        settle(tmp_path, asked(), None, title="")


def test_a_stack_is_outdated_once_the_project_file_changes(tmp_path: Path, init: Init) -> None:
    init(tmp_path / "app")
    assert not is_outdated(tmp_path / "app")
    write(tmp_path / "app", "limits: {memory: 3g}\n")
    assert is_outdated(tmp_path / "app")
    init(tmp_path / "app")
    assert not is_outdated(tmp_path / "app")
    assert "mem_limit: 3g" in (tmp_path / "app" / STACK).read_text()
    (tmp_path / "app" / PROJECT_FILE).unlink()
    assert is_outdated(tmp_path / "app")
    init(tmp_path / "app")
    assert "mem_limit: 8g" in (tmp_path / "app" / STACK).read_text()


def test_the_projects_base_image_is_not_used_for_the_proxy_and_the_firewall(tmp_path: Path, init: Init) -> None:
    image = "mirror.test/debian:13"
    (tmp_path / "app").mkdir()
    write(tmp_path / "app", f"base_image: {image}\n")
    made = init(tmp_path / "app").stack
    names = {service.name: service.image for service in made.services}
    owner = owner_of(tmp_path / "app")
    assert names["proxy"] == proxy_name()
    assert names["firewall"] == base_name()
    assert names["agent"] == agent_name(made.agents, owner, {}, image)
    built = [one.name for one in images_of(read_project(tmp_path / "app"))]
    assert built == [proxy_name(), base_name(), base_name(image), names["agent"]]


@pytest.mark.parametrize(
    ("text", "built"),
    [
        ("packages: [tree]\n", ["packages", "project"]),
        ("packages: [tree]\ndockerfile: Dockerfile\n", [FIRST, "own", "project"]),
    ],
)
def test_what_a_project_adds_is_not_in_the_firewall(tmp_path: Path, init: Init, text: str, built: list[str]) -> None:
    app = tmp_path / "app"
    (app / ".devcontainer").mkdir(parents=True)
    (app / ".devcontainer" / "Dockerfile").write_text("FROM ${AGENT_SANDBOX_BASE}\n")
    write(app, text)
    names = {service.name: service.image for service in init(app).stack.services}
    project = read_project(app)
    images = [image.name for image in images_of(project)]
    assert [name.partition(":")[0] for name in images[2:]] == [f"agent-sandbox/{name}" for name in built]
    assert names == {"proxy": images[0], "firewall": base_name(), "agent": images[-1]}
    assert {*own_images(project)} == {*images}
    assert own_images(project)[-1] == base_name() == images[1]
