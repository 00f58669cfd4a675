"""A project's packages install at the first try, from the registries in the host machine's configuration."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from client_stand import IMAGE, clients_image, remove_bazaar, start_bazaar
from real_stacks import LAB, WORK, Internet, Project, Projects, trust

SECRET = "hunter2"


def prepare() -> None:
    clients_image()


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """One way to install a project's packages."""

    service: str
    run: str
    says: str
    files: Mapping[str, str] = field(default_factory=dict)
    home: Mapping[str, str] = field(default_factory=dict)


INSTALLS = {name: Install(**row) for name, row in yaml.safe_load((LAB / "installs.yaml").read_text("utf-8")).items()}


def write(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def fill(project: Path) -> None:
    subprocess.run(["git", "init", "-q", project], check=True)
    for install in INSTALLS.values():
        write(project, install.files)


@pytest.fixture(scope="module")
def box(projects: Projects, internet: Internet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A stack after `init` and `up`, with the policy as `init` wrote it."""
    start_bazaar(internet)
    home = tmp_path_factory.mktemp("home")
    for install in INSTALLS.values():
        write(home, install.home)
    project = projects.make(
        "installs", "claude", "--with", "python", home=home, fill=fill
    )  # or it builds all languages
    override = json.loads(project.override.read_text())
    override["services"]["agent"] = {"image": IMAGE}
    project.override.write_text(json.dumps(override))
    trust(project.path)
    project.sandbox("up")
    yield project
    remove_bazaar()


@pytest.mark.nightly
@pytest.mark.parametrize("name", INSTALLS)
def test_packages_install_at_the_first_try(box: Project, name: str) -> None:
    install = INSTALLS[name]
    assert f"- {install.service} # for " in box.policy.read_text()
    done = box.exec("sh", "-ec", f"exec 2>&1\n{install.run}", check=False)
    assert (done.returncode, install.says in done.stdout) == (0, True), done.stdout


def test_no_registry_password_is_in_the_sandbox_files_or_the_container_settings(box: Project) -> None:
    texts = [path.read_text() for path in (box.path / ".devcontainer").rglob("*") if path.is_file()]
    assert [SECRET in text for text in (*texts, json.dumps(box.containers()))] == [False] * (len(texts) + 1)
    assert any(WORK in text for text in texts)


def test_git_status_lists_no_file_of_the_resolved_registries(box: Project) -> None:
    status = ["git", "-c", "safe.directory=*", "-C", str(box.path), "status", "--porcelain", "-uall"]
    offered = [
        line[3:] for line in subprocess.run(status, check=True, capture_output=True, text=True).stdout.splitlines()
    ]
    assert ".devcontainer/policy.yaml" in offered
    assert WORK not in box.policy.read_text()
    assert [path for path in offered if path.startswith(".devcontainer/services")] == []
