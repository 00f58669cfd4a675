"""`up` on a stack that was ready starts nothing, or exactly what has changed."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.engines.drivers import load_driver
from agent_sandbox.engines.events import Event, Unneeded
from agent_sandbox.engines.verbs import Build, Destroy, Up
from agent_sandbox.project.project import Project
from driver_worlds import project_in
from engine import proxy_image, run

pytestmark = pytest.mark.docker

# Each service is named for what changes in it. `shares` is in the network namespace of `port`.
CHANGED = ("environment", "env_file", "image", "mount", "port", "removed", "shares")
SERVICES = (*CHANGED, "kept", "stopped")


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A small stack, with a service for each kind of change."""

    project: Project
    image: str

    def write(self, services: dict[str, dict[str, Any]]) -> None:
        """Write the stack file with these additions to its services."""
        common = {"image": self.image, "entrypoint": ["sleep", "1000"], "init": True}
        said = {name: {**common, **services.get(name, {})} for name in (*SERVICES, *(services.keys() - SERVICES))}
        said["shares"]["network_mode"] = "service:port"
        self.project.files[0].write_text(json.dumps({"services": said}))

    def up(self, *, ready: bool) -> bool:
        """Start the stack. Return whether the engine had anything to start."""
        driver, events = load_driver(), list[Event]()
        verb = Up(build=Build(images=()), ready=ready)
        driver.execute(driver.planner.plan(self.project, verb), tell=events.append)
        assert all(one.ready for one in driver.observe(self.project.name))
        return Unneeded(name=self.project.name) not in events

    @property
    def containers(self) -> dict[str, str]:
        """The ID of each service's container."""
        return {one.service: one.id for one in load_driver().observe(self.project.name)}


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    project = project_in(tmp_path, f"ready-{uuid.uuid4().hex[:8]}")
    project.files[0].parent.mkdir()
    made, driver = Stack(project=project, image=proxy_image()), load_driver()
    run("docker", "tag", made.image, project.name)
    yield made
    driver.execute(driver.planner.plan(project, Destroy()))
    run("docker", "image", "rm", "--force", project.name)


def test_up_recreates_and_starts_exactly_what_changed(stack: Stack) -> None:
    variables = stack.project.root / ".devcontainer" / "variables"
    variables.write_text("A=1\n")
    services: dict[str, dict[str, Any]] = {
        "image": {"image": stack.project.name},
        "env_file": {"env_file": "variables"},
    }
    stack.write(services)
    assert stack.up(ready=False)
    before = stack.containers
    assert not stack.up(ready=True)
    assert stack.containers == before

    variables.write_text("A=2\n")
    services["environment"] = {"environment": {"A": "1"}}
    services["mount"] = {"volumes": ["/usr:/mnt:ro"]}
    services["port"] = {"ports": ["127.0.0.1::80"]}
    services["added"] = {}
    stack.write(services)
    run("docker", "commit", before["image"], stack.project.name)
    run("docker", "stop", "--time", "0", before["stopped"])
    run("docker", "rm", "--force", before["removed"])
    assert stack.up(ready=True)
    after = stack.containers
    assert {name for name, made in after.items() if before.get(name) != made} == {*CHANGED, "added"}

    del services["added"]
    stack.write(services)
    assert not stack.up(ready=True)
    assert stack.containers == {name: after[name] for name in SERVICES}
