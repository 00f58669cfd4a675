"""A Docker engine that maps users (userns-remap), on a separate test machine: stacks work and share fewer limits."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent_hog import BURNING, burning
from engine import proxy_image, run
from isolated_engine import Machine
from real_stacks import Project, Projects, start_internet

OWNER, OUTSIDE = 1000, 301_000
# All users are mapped; or all but the project's owner.
MAPPINGS = {
    "all": "daemon:300000:65536\n",
    "but-the-owner": "daemon:300000:1000\ndaemon:1000:1\ndaemon:301001:64535\n",
}


@pytest.fixture(scope="module")
def images() -> tuple[str, ...]:
    """Build the images on the ordinary engine."""
    proxy = proxy_image()
    return proxy, proxy.replace("/proxy:", "/base:"), proxy.replace("/proxy:", "/copilot:")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A directory that other users can read, unlike pytest's own."""
    with TemporaryDirectory(prefix="agent-sandbox-test-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture(scope="module", params=MAPPINGS)
def stack(request: pytest.FixtureRequest, images: tuple[str, ...], folder: Path) -> Iterator[Project]:
    """A stack on an engine with that mapping."""
    place = folder / request.param
    for made in (place, place / "machine", place / "internet"):
        made.mkdir()
    machine = Machine(place / "machine", "--userns-remap=daemon", subordinate=MAPPINGS[request.param])
    try:
        machine.load(*images)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DOCKER_HOST", machine.host)
            internet = start_internet(place / "internet", image=images[0])
            project = Projects(internet, place).make("app", "copilot")
            project.write_policy("version: 1\ndomains: [allowed.test]\n")
            project.sandbox("up")
            yield project
    finally:
        machine.remove()


def owner_check(project: Project) -> dict[str, str]:
    """Return doctor's check of the project's owner."""
    checks = json.loads(project.sandbox("doctor", "--json", check=False).stdout)["checks"]
    found: dict[str, str] = next(one for one in checks if one["name"] == "owner")
    return found


def let_in(project: Project) -> None:
    """Run the command that doctor suggests if dev cannot write the project."""
    found = owner_check(project)
    if found["status"] == "fail":
        assert project.exec("test", "-w", ".", check=False).returncode == 1
        run(*shlex.split(found["hint"]))
    assert owner_check(project)["status"] == "ok"


def test_a_stack_works_with_mapped_users_and_dev_can_write_the_project(stack: Project) -> None:
    let_in(stack)
    stack.exec("sh", "-c", "mkdir made; echo inside >made/file; git init --quiet repository; git -C repository status")
    file = stack.path / "made" / "file"
    assert file.stat().st_uid in {OWNER, OUTSIDE}
    run("setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups", "sh", "-c", f"echo outside >>{file}")
    assert stack.exec("cat", "made/file").stdout == "inside\noutside\n"
    assert stack.curl("https://allowed.test/")[0] == 200
    assert stack.sandbox("verify", "--full").stdout.splitlines()[-1].endswith(" tried, none got out")
    assert stack.exec("sh", "-c", "echo >>.devcontainer/policy.yaml", check=False).returncode != 0


def outside(what: str, image: str) -> int:
    """Use up a resource as the project's owner, in a container of the ordinary engine, without a user namespace."""
    argv = ("--user=1000:1000", "--network=none", "--entrypoint=python3", image, "-c", BURNING, what)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DOCKER_HOST")
        return int(run("docker", "run", "--rm", "--interactive", *argv, check=False).stdout)


@pytest.mark.parametrize("what", ["inotify_instances", "descriptors_in_flight"])
def test_the_users_kernel_limits_are_separate_except_descriptors_of_an_unmapped_owner(
    stack: Project, images: tuple[str, ...], what: str
) -> None:
    mapped = owner_check(stack)["what"].startswith(f"dev is uid {OUTSIDE} ")
    with burning(stack, what) as taken:
        assert taken > 0
        # The kernel counts descriptors in flight by the user id outside the namespace.
        left = outside(what, images[1])
        # Not all of it is left: other stacks of the run have instances of inotify, too.
        assert (left > taken // 2) is (mapped or what == "inotify_instances")
