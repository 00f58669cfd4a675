"""Images have the same digests from a checkout and from a wheel."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
DIGESTS = """
from agent_sandbox import images, resources
from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.agents.together import Agents
from agent_sandbox.stack.recorded import Owner
templates = resources.data_root() / "templates"
print(resources.data_root())
for agent in known_agents(templates):
    for image in images.images_for(Agents((load_manifest(templates, agent),)), Owner()):
        print(image.name, image.digest)
"""


def digests(source: Path) -> tuple[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", DIGESTS],
        capture_output=True,
        text=True,
        check=True,
        cwd=source,
        env={"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    where, *lines = done.stdout.splitlines()
    return where, lines


def test_image_digests_are_the_same_from_a_wheel_and_a_checkout(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-P", "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "installed")
    from_wheel, of_wheel = digests(tmp_path / "installed")
    from_checkout, of_checkout = digests(ROOT / "src")
    assert from_wheel == str(tmp_path / "installed" / "agent_sandbox" / "_data")
    assert from_checkout == str(ROOT)
    assert of_wheel == of_checkout
