import json
from pathlib import Path

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.features.stack.init.initialise import prepare
from agent_sandbox.features.trust.expected_files import generated, written_here
from agent_sandbox.project.render.formats.header import stamped
from agent_sandbox.resources import data_root
from init_project import Init, init_options

AGENT = known_agents(data_root() / "templates")[0]
COMPOSE = ".devcontainer/docker-compose.yml"
DEVCONTAINER = ".devcontainer/devcontainer.json"
RECORD = ".devcontainer/stack.json"
SHARED = ".devcontainer/compose.yaml"


def test_expects_the_files_that_init_has_just_written(tmp_path: Path, init: Init) -> None:
    root = tmp_path / "app"
    prepared = init(root)
    written = written_here(root, (AGENT,), {"HOME": str(tmp_path / "home")})
    assert written.files == {path: (root / path).read_text() for path in (COMPOSE, RECORD, DEVCONTAINER, SHARED)}
    assert written.files == generated(prepared)
    assert written.members["initializeCommand"][:2] == ["agent-sandbox", "build"]


def test_does_not_expect_a_compose_file_with_a_forged_header(tmp_path: Path, init: Init) -> None:
    root = tmp_path / "app"
    init(root)
    ours = (root / COMPOSE).read_text()
    forged = stamped(ours.partition("\n")[2].partition("\n")[2] + "# and more\n", comment="#")
    (root / COMPOSE).write_text(forged)
    assert written_here(root, (AGENT,), {"HOME": str(tmp_path / "home")}).files[COMPOSE] == ours


def test_leaves_out_a_devcontainer_json_with_settings_of_the_user(tmp_path: Path, init: Init) -> None:
    root = tmp_path / "app"
    (root / ".devcontainer").mkdir(parents=True)
    (root / DEVCONTAINER).write_text(json.dumps({"postCreateCommand": "make"}))
    prepared = init(root)
    assert sorted(generated(prepared)) == [SHARED, COMPOSE, RECORD]
    written = written_here(root, (AGENT,), {"HOME": str(tmp_path / "home")})
    assert (sorted(written.files), "postCreateCommand" in written.members) == ([SHARED, COMPOSE, RECORD], False)


def test_does_not_expect_limits_that_only_the_compose_file_records(tmp_path: Path, init: Init) -> None:
    root, home = tmp_path / "app", {"HOME": str(tmp_path / "home")}
    init(root)
    body = (root / COMPOSE).read_text().replace("ide: vscode", "ide: vscode, limits: {memory: 64g}").split("\n", 2)[2]
    (root / COMPOSE).write_text(stamped(body.replace("mem_limit: 8g", "mem_limit: 64g"), comment="#"))
    (root / SHARED).unlink()
    assert "mem_limit: 64g" in prepare(init_options(root), home).changes[0].after
    assert "mem_limit: 64g" not in written_here(root, (AGENT,), home).files[COMPOSE]


def test_expects_the_limits_of_the_project_file(tmp_path: Path, init: Init) -> None:
    root, home = tmp_path / "app", {"HOME": str(tmp_path / "home")}
    init(root, memory="64g")
    files = written_here(root, (AGENT,), home).files
    assert files == {path: (root / path).read_text() for path in (COMPOSE, RECORD, SHARED)} | {
        DEVCONTAINER: files[DEVCONTAINER]
    }


def test_does_not_expect_labels_of_another_directory(tmp_path: Path, init: Init) -> None:
    root, home = tmp_path / "app", {"HOME": str(tmp_path / "home")}
    init(root)
    label = f"devcontainer.local_folder: {root}"
    body = (root / COMPOSE).read_text().replace(label, f"devcontainer.local_folder: {tmp_path}/other").split("\n", 2)[2]
    (root / COMPOSE).write_text(stamped(body, comment="#"))
    assert label not in (root / COMPOSE).read_text()
    assert label in written_here(root, (AGENT,), home).files[COMPOSE]
