"""The wheel and the sdist contain all files of the checkout that they need."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ("templates", "images", "services")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with a wheel and an sdist of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-P", "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True, capture_output=True
    )
    return folder


def tracked(*folders: str) -> set[str]:
    """Return the files in these folders that git tracks."""
    listed = subprocess.run(["git", "ls-files", "--", *folders], cwd=ROOT, check=True, capture_output=True, text=True)
    return set(listed.stdout.split())


def test_the_wheel_contains_exactly_the_package_and_its_data(dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    wanted = {path.removeprefix("src/") for path in tracked("src")}
    wanted |= {f"agent_sandbox/_data/{path}" for path in tracked(*DATA)}
    assert wanted <= names
    assert {name for name in names - wanted if ".dist-info/" not in name} == set()


def test_the_sdist_contains_the_sources_of_the_wheel(dist: Path) -> None:
    archive = next(dist.glob("*.tar.gz"))
    with tarfile.open(archive) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    assert tracked("src", *DATA) <= names
