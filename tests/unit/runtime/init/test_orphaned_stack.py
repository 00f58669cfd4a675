from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.render.paths import STACK
from agent_sandbox.runtime.init.initialise import prepare
from agent_sandbox.runtime.init.orphaned_stack import orphaned_stack
from agent_sandbox.runtime.project.trust_snapshot import Standing, look
from init_project import init_options

KEPT = (
    "if it ever ran, its containers and volumes (with sign-in and history) remain until: "
    "cd / && docker compose --project-name {} down --volumes"
)


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Standing]:
    """Return a project that `init` has been run in, and what was trusted there."""
    project = tmp_path / "app"
    project.mkdir()
    prepared = prepare(init_options(project), {})
    prepared.write()
    return project, look(project, {})


def name_in(trusted: Standing) -> str:
    return next(line.removeprefix("name: ") for line in trusted.files[STACK].splitlines() if line.startswith("name:"))


def test_reports_nothing_for_a_new_or_unchanged_project(tmp_path: Path, made: tuple[Path, Standing]) -> None:
    project, trusted = made
    (tmp_path / "new").mkdir()
    for path in (tmp_path / "new", project):
        assert [*orphaned_stack(prepare(init_options(path), {}), [trusted])] == []


def test_reports_the_former_stack_after_the_stack_is_renamed(made: tuple[Path, Standing]) -> None:
    project, trusted = made
    former = name_in(trusted)
    (note,) = orphaned_stack(prepare(init_options(project, title="other"), {}), [trusted])
    assert note == f"the stack was named {former}: {KEPT.format(former)}"


def test_reports_the_former_stack_of_a_moved_project_but_not_of_a_copy_or_clone(made: tuple[Path, Standing]) -> None:
    project, trusted = made
    former, moved = name_in(trusted), project.with_name("moved")
    project.rename(moved)
    (note,) = orphaned_stack(prepare(init_options(moved), {}), [trusted])
    assert note == f"the project was in {project}, and its stack was {former}: {KEPT.format(former)}"
    assert [*orphaned_stack(prepare(init_options(moved), {}), [])] == []
    assert [*orphaned_stack(prepare(init_options(moved), {}), [replace(trusted, files={})])] == []
    project.mkdir()
    assert [*orphaned_stack(prepare(init_options(moved), {}), [trusted])] == []
