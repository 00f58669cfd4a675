import json

import pytest

from agent_sandbox.runtime.compose.engine import DOCKER
from agent_sandbox.runtime.compose.own_images import own_images
from agent_sandbox.runtime.compose.podman import PODMAN
from fake_docker import FakeDocker


@pytest.fixture
def engine(docker: FakeDocker) -> FakeDocker:
    docker.says("image ls --filter label=agent-sandbox.digest", out="agent-sandbox/b:1\nagent-sandbox/a:1\nmine:1\n")
    return docker.says("ps --all", out="1 agent-sandbox/b:1\n")


def test_lists_images_with_our_name_and_label_that_no_container_uses(engine: FakeDocker) -> None:
    engine.says("df", out=json.dumps([{"Repository": "agent-sandbox/a", "Tag": "1", "UniqueSize": "1.5kB"}]))
    assert own_images(DOCKER) == {"agent-sandbox/a:1": 1500}
    assert own_images(DOCKER, leaving=["1"]) == {"agent-sandbox/a:1": 1500, "agent-sandbox/b:1": None}


@pytest.mark.parametrize("said", ["", "[1]", "[{}]", "null"])
def test_the_size_is_unknown_if_the_engine_does_not_report_a_valid_size(engine: FakeDocker, said: str) -> None:
    engine.says("df", out=said)
    assert own_images(DOCKER) == {"agent-sandbox/a:1": None}


def test_removes_the_localhost_prefix_of_podmans_image_names(docker: FakeDocker) -> None:
    docker.program = "podman"
    docker.says("image ls", out="localhost/agent-sandbox/a:1\nlocalhost/agent-sandbox/b:1\n")
    docker.says("ps --all", out="1 localhost/agent-sandbox/b:1\n").says("df", code=1)
    assert own_images(PODMAN) == {"agent-sandbox/a:1": None}
