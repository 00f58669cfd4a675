from pathlib import Path

import pytest

from agent_sandbox.images import Additions
from agent_sandbox.problems import UserError
from agent_sandbox.render.paths import PROJECT_FILE
from agent_sandbox.runtime.project.project_file import additions_in, build_file_of, made_of, project_files
from table_tests import each

DOCKERFILE = ".devcontainer/Dockerfile"
FROM = "FROM ${AGENT_SANDBOX_BASE}\n"


@each(
    ("text", "path"),
    [
        ("", ""),
        ("packages: [a]", ""),
        ("dockerfile: Dockerfile", DOCKERFILE),
        ('"docker\\x66ile": Dockerfile', DOCKERFILE),
        ("dockerfile: ../Dockerfile", ""),
        ("dockerfile: a/b", ""),
        ("dockerfile: [a]", ""),
        ("dockerfile: *a", ""),
        ("# dockerfile", ""),
    ],
)
def test_the_dockerfile_is_beside_the_file(text: str, path: str) -> None:
    assert build_file_of(text) == path


def test_reads_the_file_and_its_dockerfile(tmp_path: Path) -> None:
    assert project_files(tmp_path) == {}
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / PROJECT_FILE).write_text("dockerfile: Dockerfile\n")
    assert project_files(tmp_path) == {PROJECT_FILE: "dockerfile: Dockerfile\n"}
    (tmp_path / DOCKERFILE).write_text(FROM)
    assert project_files(tmp_path) == {PROJECT_FILE: "dockerfile: Dockerfile\n", DOCKERFILE: FROM}
    (tmp_path / DOCKERFILE).unlink()
    (tmp_path / DOCKERFILE).symlink_to("/etc/hostname")
    with pytest.raises(UserError, match="does not follow symbolic links"):
        project_files(tmp_path)


def test_other_files_are_not_read() -> None:
    texts = {PROJECT_FILE: "dockerfile: Dockerfile", DOCKERFILE: FROM, "other": ""}
    assert made_of(texts) == {PROJECT_FILE: "dockerfile: Dockerfile", DOCKERFILE: FROM}


def test_texts_make_additions() -> None:
    assert additions_in({}) == additions_in({PROJECT_FILE: "name: a"}) == Additions()
    assert additions_in({PROJECT_FILE: "packages: [aa]"}) == Additions(packages=("aa",))
    assert additions_in({PROJECT_FILE: "dockerfile: Dockerfile", DOCKERFILE: FROM}) == Additions(build_file=FROM)
