from pathlib import Path

import pytest

from agent_sandbox.images import Additions, beside_image
from agent_sandbox.problems import UserError
from agent_sandbox.project.project_file import (
    additions_in,
    base_image_of,
    beside_images_in,
    build_file_of,
    files_run_by,
    made_of,
    project_files,
    read_only_mounts_of,
    setup_of,
)
from agent_sandbox.project.render.paths import PROJECT_FILE
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
def test_accepts_only_a_dockerfile_beside_the_project_file(text: str, path: str) -> None:
    assert build_file_of(text) == path


def test_reads_the_project_file_and_its_dockerfile_but_follows_no_link(tmp_path: Path) -> None:
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


@each(
    ("text", "image"),
    [("base_image: debian:13", "debian:13"), ("base_image: --x", ""), ("base_image: [a]", ""), ("name: a", "")],
)
def test_returns_the_base_image_only_if_the_name_is_valid(text: str, image: str) -> None:
    assert base_image_of(text) == image


@each(
    ("text", "path"),
    [
        ("setup: a/b.sh", "a/b.sh"),
        ('"set\\x75p": a/b.sh', "a/b.sh"),
        ("setup: ../b.sh", ""),
        ("setup: .git/hooks/x", ""),
        ("setup: [a]", ""),
        ("setup: {", ""),
    ],
)
def test_returns_the_setup_script_only_if_its_path_is_in_the_project_and_valid(text: str, path: str) -> None:
    assert setup_of(text) == path


@each(
    ("text", "paths"),
    [
        ("mounts: [{path: ../a}, {path: ~/b, read_only: true}]", ("../a", "~/b")),
        ("mounts: [{path: ../a, read_only: false}, {path: ../b, read_only: 1}, 5]", ()),
        ("mounts: 5", ()),
        ("version: 1", ()),
    ],
)
def test_returns_only_mounts_that_are_read_only(text: str, paths: tuple[str, ...]) -> None:
    assert read_only_mounts_of(text) == paths


def test_reads_the_setup_script_but_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / PROJECT_FILE).write_text("setup: setup.sh\n")
    assert project_files(tmp_path) == {PROJECT_FILE: "setup: setup.sh\n"}
    (tmp_path / "setup.sh").write_text("echo\n")
    assert project_files(tmp_path) == {PROJECT_FILE: "setup: setup.sh\n", "setup.sh": "echo\n"}
    (tmp_path / "setup.sh").unlink()
    (tmp_path / "setup.sh").symlink_to("/etc/hostname")
    with pytest.raises(UserError, match="does not follow symbolic links"):
        project_files(tmp_path)


def test_made_of_omits_other_files() -> None:
    texts = {PROJECT_FILE: "dockerfile: Dockerfile", DOCKERFILE: FROM, "other": ""}
    assert made_of(texts) == {PROJECT_FILE: "dockerfile: Dockerfile", DOCKERFILE: FROM}


def test_returns_the_additions_that_the_project_file_names() -> None:
    assert additions_in({}) == additions_in({PROJECT_FILE: "name: a"}) == Additions()
    assert additions_in({PROJECT_FILE: "packages: [aa]"}) == Additions(packages=("aa",))
    assert additions_in({PROJECT_FILE: "dockerfile: Dockerfile", DOCKERFILE: FROM}) == Additions(build_file=FROM)


def test_a_setup_script_with_the_name_of_the_dockerfile_is_not_built() -> None:
    texts = {PROJECT_FILE: "dockerfile: D\nsetup: scripts/D", ".devcontainer/D": FROM, "scripts/D": f"{FROM}RUN evil\n"}
    assert additions_in(texts) == Additions(build_file=FROM)


BESIDE = "beside: {db: {build: {dockerfile: D}}, web: {build: {dockerfile: W}}, other: {build: {dockerfile: D}}}\n"


@each(
    ("text", "paths"),
    [
        (BESIDE, [".devcontainer/D", ".devcontainer/W"]),
        ('"besid\\x65": {db: {build: {dockerfile: D}}}', [".devcontainer/D"]),
        ("beside: {db: {build: {dockerfile: ../D}}, a: {build: D}, b: [], c: {build: {dockerfile: [D]}}}", []),
        ("beside: [db]", []),
        ("setup: s.sh\ndockerfile: D\nbeside: {db: {build: {dockerfile: D}}}", [".devcontainer/D", "s.sh"]),
    ],
)
def test_files_run_by_includes_the_dockerfiles_of_services(text: str, paths: list[str]) -> None:
    assert files_run_by(text) == paths


def test_returns_each_image_of_built_services_once() -> None:
    assert beside_images_in({}) == ()
    texts = {PROJECT_FILE: BESIDE, ".devcontainer/D": "FROM x", ".devcontainer/W": "FROM y", "W": "FROM no"}
    assert beside_images_in(texts) == (beside_image("FROM x"), beside_image("FROM y"))
    with pytest.raises(UserError, match=r"`beside: web` names a file that does not exist: .devcontainer/W"):
        beside_images_in({PROJECT_FILE: BESIDE, ".devcontainer/D": "FROM x", "W": "FROM no"})
