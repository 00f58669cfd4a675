import os
from pathlib import Path

import pytest

from agent_sandbox.host.program_path import in_project, program_path


def test_directories_that_an_agent_could_write_are_left_out(tmp_path: Path) -> None:
    for folder in ("app/bin", "other/bin", "other/.devcontainer", "mine"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "linked").symlink_to(tmp_path / "other" / "bin")
    folders = [tmp_path / name for name in ("app/bin", "app/../app/bin", "other/bin", "linked", "mine")]
    path = os.pathsep.join(["", ".", "node_modules/.bin", *map(str, folders), "/usr/bin"])
    assert program_path({"PATH": path}, project=tmp_path / "app") == f"{tmp_path / 'mine'}:/usr/bin"
    assert program_path({"PATH": path}).startswith(f"{tmp_path / 'app' / 'bin'}:")


@pytest.mark.parametrize("environ", [{}, {"PATH": ""}, {"PATH": "."}, {"PATH": "node_modules/.bin:"}])
def test_the_current_directory_is_never_searched(environ: dict[str, str]) -> None:
    assert program_path(environ) == os.defpath


def test_a_path_that_cannot_be_inspected_counts_as_in_a_project(tmp_path: Path) -> None:
    assert in_project("/a\0b")
    assert not in_project(tmp_path / "none")
