import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.features.trust.prompt import unseen_in
from agent_sandbox.images import agent_name, base_name, beside_image, proxy_name
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import (
    find_project,
    images_of,
    is_own,
    open_project,
    own_images,
    read_facts,
    require_outermost,
)
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.formats.header import stamped
from agent_sandbox.project.render.paths import PROJECT_FILE, RECORD
from agent_sandbox.project.root import STACK_FILE
from agent_sandbox.project.trust_snapshot import look
from agent_sandbox.project.trust_store import open_store
from agent_sandbox.resources import data_root
from agent_sandbox.stack.naming import stack_name
from agent_sandbox.stack.recorded import Owner
from init_project import Init, init

__all__ = ["init"]

AGENT = known_agents(data_root() / "templates")[0]
OWNER = Owner(uid=501, gid=20)
FILE = f"""\
name: NAME
x-agent-sandbox: {{agent: {AGENT}, title: app, ide: vscode, dev: "501:20"}}
services:
  proxy: {{image: {proxy_name()}}}
  firewall: {{image: "{agent_name((AGENT,), OWNER)}"}}
  agent: {{image: "{agent_name((AGENT,), OWNER)}"}}
  odd: null
"""


def project_at(root: Path, text: str = FILE) -> Path:
    (root / ".devcontainer").mkdir(parents=True)
    text = text.replace("NAME", stack_name("app", str(root)))
    (root / ".devcontainer" / "docker-compose.yml").write_text(stamped(text, comment="#"))
    return root


def expected(root: Path) -> Project:
    return Project(
        root=root,
        name=stack_name("app", str(root)),
        agents=(AGENT,),
        owner=OWNER,
        images=(proxy_name(), agent_name((AGENT,), OWNER)),
        files=(root / ".devcontainer" / "docker-compose.yml",),
    )


def test_a_project_is_found_from_any_directory_inside_it(tmp_path: Path) -> None:
    root = project_at(tmp_path / "a project")
    inside = root / "src" / "deep"
    inside.mkdir(parents=True)
    assert find_project(None, cwd=inside) == expected(root)


def test_a_given_path_must_be_the_directory_of_the_project(tmp_path: Path) -> None:
    root = project_at(tmp_path / "app")
    assert find_project(root, cwd=tmp_path) == expected(root)
    (root / "src").mkdir()
    with pytest.raises(
        UserError, match="no stack in this directory; agent-sandbox init AGENT makes one, where AGENT is one of: "
    ):
        open_project(root / "src", cwd=tmp_path)


def test_suggests_init_with_an_agent_if_there_is_no_stack(tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        open_project(None, cwd=tmp_path)
    known = ", ".join(known_agents(data_root() / "templates"))
    what = f"no stack in this directory; agent-sandbox init AGENT makes one, where AGENT is one of: {known}"
    assert str(raised.value) == f"{tmp_path}: {what}"


def test_suggests_init_for_a_project_file_without_a_stack(tmp_path: Path) -> None:
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / PROJECT_FILE).write_text("version: 1\nagents: [claude]\n")
    with pytest.raises(UserError) as raised:
        open_project(None, cwd=tmp_path)
    assert str(raised.value) == (
        f"{tmp_path}: no stack in this directory; agent-sandbox init makes it from {PROJECT_FILE}; "
        "if that lists no agents, agent-sandbox init AGENT"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("services: {}\n", ": not a compose file of agent-sandbox: it has no valid `name` or no `x-agent-sandbox`; "),
        ("[1, 2]\n", ": not a compose file of agent-sandbox: it has no valid `name` or no `x-agent-sandbox`; "),
        ("a: [1\nb: 2\n", ":4:2: not YAML: "),
        ("name: a\nx-agent-sandbox: {agent: b, dev: '1:x'}\n", ": `x-agent-sandbox.dev` is `1:x`; it must be two"),
    ],
)
def test_rejects_a_foreign_or_invalid_compose_file_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    root = project_at(tmp_path / "app", text)
    with pytest.raises(UserError) as raised:
        open_project(root, cwd=tmp_path)
    assert str(raised.value).startswith(f"{root}/.devcontainer/docker-compose.yml{problem}")


def test_rejects_a_compose_file_that_is_not_utf8(tmp_path: Path) -> None:
    root = project_at(tmp_path / "app")
    (root / ".devcontainer" / "docker-compose.yml").write_bytes(b"\xff")
    with pytest.raises(UserError, match=r"docker-compose.yml: not UTF-8 text at byte 0; save it as UTF-8$"):
        open_project(root, cwd=tmp_path)


def test_the_images_of_a_project_are_those_of_its_stack_and_the_base_image(tmp_path: Path) -> None:
    names = [image.name for image in images_of(expected(tmp_path))]
    assert names == [proxy_name(), base_name(), agent_name((AGENT,), OWNER)]


def test_includes_images_of_services_that_are_built_but_not_pulled_images(tmp_path: Path) -> None:
    built = beside_image("FROM x")
    texts = {PROJECT_FILE: "beside: {db: {build: {dockerfile: D}}, web: {image: x}}", ".devcontainer/D": "FROM x"}
    project = replace(expected(tmp_path), images=(proxy_name(), built.name, "x"), made_of=texts)
    assert images_of(project)[-1] == built
    assert own_images(project) == (proxy_name(), built.name, base_name())


def test_suggests_how_to_remove_the_former_stack_of_a_moved_project(tmp_path: Path, init: Init) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    prepared = init(first)
    open_store(os.environ).save(look(first, os.environ))
    first.rename(second)
    with pytest.raises(UserError) as raised:
        open_project(second, cwd=tmp_path)
    name = prepared.stack.name
    assert str(raised.value) == (
        f"{second}/.devcontainer/docker-compose.yml: the stack {name} belongs to another directory: this project was"
        f" moved, copied or cloned; agent-sandbox init {AGENT} makes a new stack for this directory;"
        f" `cd / && docker compose --project-name {name} down --volumes` removes the one of {first}"
    )


def test_does_not_build_the_users_own_images(tmp_path: Path) -> None:
    project = replace(expected(tmp_path), images=(proxy_name(), "registry.example.com/our/agent:7"))
    assert [image.name for image in images_of(project)] == [proxy_name(), base_name()]


def test_suggests_init_for_a_stack_of_another_version(tmp_path: Path) -> None:
    project = replace(expected(tmp_path), images=("agent-sandbox/proxy:0.0.1", "agent-sandbox/base:0.0.1"))
    with pytest.raises(UserError) as raised:
        images_of(project)
    assert str(raised.value) == (
        f"{tmp_path}/.devcontainer/docker-compose.yml: the stack was made by another version of agent-sandbox: "
        "this one does not build agent-sandbox/proxy:0.0.1 and agent-sandbox/base:0.0.1; "
        f"agent-sandbox init {AGENT} updates the stack"
    )


def test_refuses_to_open_a_copied_project_with_the_stack_of_its_original(tmp_path: Path) -> None:
    original = project_at(tmp_path / "app")
    copy = Path(shutil.copytree(original, tmp_path / "copy"))
    name = stack_name("app", str(original))
    with pytest.raises(UserError) as raised:
        open_project(copy, cwd=tmp_path)
    assert str(raised.value) == (
        f"{copy}/.devcontainer/docker-compose.yml: the stack {name} belongs to another directory: this project was"
        f" moved, copied or cloned; agent-sandbox init {AGENT} makes a new stack for this directory"
    )
    assert find_project(copy, cwd=tmp_path).name == name


def test_a_project_opened_through_a_link_owns_its_stack(tmp_path: Path) -> None:
    root = project_at(tmp_path / "app")
    (tmp_path / "link").symlink_to(root)
    assert is_own(open_project(tmp_path / "link", cwd=tmp_path))


def test_refuses_a_stack_below_a_project_that_already_has_a_stack(tmp_path: Path) -> None:
    root = project_at(tmp_path / "an app")
    (root / "src").mkdir()
    require_outermost(tmp_path)
    require_outermost(root)
    with pytest.raises(UserError) as raised:
        require_outermost(root / "src")
    assert str(raised.value) == (
        f"{root}/src: this directory is in {root}, which already has a stack;"
        f" --path '{root}' uses that one; --path . makes another one here"
    )


def trust(root: Path) -> None:
    open_store(os.environ).save(look(root, os.environ))


def test_compose_gets_the_trusted_copy_of_an_edited_file(tmp_path: Path) -> None:
    root = project_at(tmp_path / "app")
    file = root / ".devcontainer" / "docker-compose.yml"
    trusted = file.read_text()
    trust(root)
    file.write_text(trusted.replace("odd: null", "odd: {privileged: true}"))
    project = open_project(root, cwd=tmp_path)
    (copy,) = project.files
    assert copy.read_text() == trusted
    assert project == replace(expected(root), files=(copy,))
    assert not copy.is_relative_to(root)


def test_compose_gets_no_files_that_are_not_trusted(tmp_path: Path) -> None:
    root = project_at(tmp_path / "app")
    assert open_project(root, cwd=tmp_path) == replace(expected(root), files=())


def test_ignores_an_untrusted_stack_below_a_project(tmp_path: Path) -> None:
    root = project_at(tmp_path / "app")
    nested = project_at(root / "vendor" / "lib")
    assert find_project(None, cwd=nested).root == root
    with pytest.raises(UserError, match=f"{nested}: this directory is in {root}, which already has a stack"):
        require_outermost(nested)


def test_uses_a_stack_below_a_project_once_the_stack_is_trusted(tmp_path: Path) -> None:
    root = project_at(tmp_path / "app")
    nested = project_at(root / "vendor" / "lib")
    trust(nested)
    assert find_project(None, cwd=nested).root == nested
    require_outermost(nested)


A_LINK = "cannot be used: too many levels of symbolic links; agent-sandbox does not follow symbolic links:"
NO_FILE = "move it away: a regular text file belongs there"
MAKE: dict[str, tuple[Callable[[Path], object], str]] = {
    "link": (lambda file: file.symlink_to("/dev/zero"), f"{A_LINK} replace it with a real file or directory"),
    "pipe": (os.mkfifo, f"cannot be used: not a regular file; {NO_FILE}"),
    "directory": (Path.mkdir, f"cannot be used: is a directory; {NO_FILE}"),
    "huge": (
        lambda file: file.write_bytes(b"#" * (2 << 20)),
        f"larger than 1 MiB; {NO_FILE}",
    ),
}


@pytest.mark.parametrize("path", [".devcontainer/docker-compose.yml", ".env"])
@pytest.mark.parametrize("kind", MAKE)
def test_rejects_a_link_pipe_directory_or_large_file_in_place_of_a_file(tmp_path: Path, path: str, kind: str) -> None:
    root = project_at(tmp_path / "app")
    (root / path).unlink(missing_ok=True)
    make, what = MAKE[kind]
    make(root / path)
    with pytest.raises(UserError) as raised:
        find_project(root, cwd=tmp_path)
    assert str(raised.value) == f"{root / path}: {what}"


def test_rejects_a_compose_file_that_is_nested_too_deeply(tmp_path: Path) -> None:
    root = project_at(tmp_path / "app", "[" * 100_000)
    with pytest.raises(UserError) as raised:
        find_project(root, cwd=tmp_path)
    assert str(raised.value) == (
        f"{root}/.devcontainer/docker-compose.yml:3:33: this is more than 32 levels deep;"
        " agent-sandbox init AGENT shows the expected file"
    )


@pytest.mark.parametrize("name", ["../../app-1", "App-1", "-app-1", "app 1", ""])
def test_rejects_stack_names_that_the_engine_does_not_accept(tmp_path: Path, name: str) -> None:
    root = project_at(tmp_path / "app")
    file = root / STACK_FILE
    file.write_text(file.read_text().replace(expected(root).name, json.dumps(name)))
    with pytest.raises(UserError, match="it has no valid `name` or no `x-agent-sandbox`"):
        find_project(root, cwd=tmp_path)


def test_what_commands_know_of_a_stack_is_what_runs_and_not_what_a_pulled_record_says(
    tmp_path: Path, init: Init
) -> None:
    root = tmp_path / "app"
    init(root)
    before, project = read_facts(root), find_project(root, cwd=root)
    trust(root)
    assert read_facts(root) == before
    said = json.loads((root / RECORD).read_text())
    said["name"] = "other"
    said["facts"]["protected"] = said["facts"]["masked"] = []
    (root / RECORD).write_text(json.dumps(said, indent=2) + "\n")
    assert (read_facts(root), unseen_in(root, os.environ)) == (before, (RECORD,))
    open_store(os.environ).forget(root)
    assert (read_facts(root), find_project(root, cwd=root)) == (before, project)


def test_a_trusted_stack_without_a_record_has_the_facts_of_its_compose_file(tmp_path: Path, init: Init) -> None:
    root = tmp_path / "app"
    init(root)
    before, project = read_facts(root), find_project(root, cwd=root)
    (root / RECORD).unlink()
    trust(root)
    assert (read_facts(root), find_project(root, cwd=root)) == (before, project)
