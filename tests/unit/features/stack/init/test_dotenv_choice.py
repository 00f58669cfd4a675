from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.features.stack.init.initialise import prepare
from agent_sandbox.project.render.paths import PATHS, STACK
from agent_sandbox.stack.engine import OWN_STACKS
from init_project import init_options

NAMES_OURS = f"COMPOSE_FILE={STACK}\n"


@pytest.mark.parametrize(
    ("files", "asked", "expected"),
    [
        ({}, None, True),
        ({}, False, False),
        ({".env": "A=1\n"}, None, True),
        *(({name: ""}, None, False) for name in OWN_STACKS),
        ({"compose.yaml": ""}, True, True),
        # Plain `docker compose` uses files that are elsewhere.
        ({".env": "COMPOSE_FILE=deploy/compose.yaml\n"}, None, False),
        ({".env": "COMPOSE_PROJECT_NAME=mine\n"}, None, False),
        # An earlier version took over `docker compose`, and an upgrade does not change that.
        ({"compose.yaml": "", ".env": NAMES_OURS}, None, True),
        ({"compose.yaml": "", ".env": NAMES_OURS}, False, False),
    ],
)
def test_uses_dotenv_by_default_unless_the_project_has_its_own_compose_setup(
    tmp_path: Path, *, files: dict[str, str], asked: bool | None, expected: bool
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    prepared = prepare(replace(init_options(tmp_path), dotenv=asked), {})
    assert prepared.workspace.dotenv is expected
    prepared.write()
    assert prepare(init_options(tmp_path), {}).workspace.dotenv is expected


def test_a_compose_file_that_appears_later_does_not_change_the_dotenv_choice(tmp_path: Path) -> None:
    prepare(init_options(tmp_path), {}).write()
    (tmp_path / "compose.yaml").write_text("")  # the agent can write one too
    assert prepare(init_options(tmp_path), {}).workspace.dotenv
    prepare(replace(init_options(tmp_path), dotenv=False), {}).write()
    (tmp_path / "compose.yaml").unlink()
    assert not prepare(init_options(tmp_path), {}).workspace.dotenv


@pytest.mark.parametrize(
    "make", [lambda file: file.symlink_to("/etc/hostname"), lambda file: file.write_bytes(b"\xff")]
)
def test_accepts_an_invalid_env_if_init_leaves_it_alone(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / ".env")
    prepared = prepare(replace(init_options(tmp_path), dotenv=False), {})
    prepared.write()
    assert [change.path for change in prepared.changes] == [*PATHS[:-1]]
    assert not [one for one in prepared.workspace.protected if one.path == ".env" and (tmp_path / ".env").is_symlink()]


def test_ignores_lines_added_later_to_an_env_that_init_leaves_alone(tmp_path: Path) -> None:
    prepare(replace(init_options(tmp_path), dotenv=False), {}).write()
    (tmp_path / ".env").write_text(f"COMPOSE_FILE={STACK}:evil.yml\n")  # the agent can write one too
    prepared = prepare(init_options(tmp_path), {})
    assert (prepared.workspace.dotenv, prepared.conflicts) == (False, ())
    assert [change.path for change in prepared.changes] == [*PATHS[:-1]]


def test_neither_creates_nor_mounts_a_missing_env_that_init_leaves_alone(tmp_path: Path) -> None:
    prepared = prepare(replace(init_options(tmp_path), dotenv=False), {})
    prepared.write()
    assert not (tmp_path / ".env").exists()
    assert [one.path for one in prepared.workspace.protected] == [".devcontainer"]
