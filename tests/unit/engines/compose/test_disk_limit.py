import json

import pytest

from agent_sandbox.engines.compose.disk_limit import require_disk_limit
from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.problems import UserError
from fake_docker import FakeDocker

XFS = [["Backing Filesystem", "xfs"], ["Supports d_type", "true"]]
WITHOUT = "remove `disk` from the limits in sandbox.yaml"


@pytest.mark.parametrize(
    ("status", "what"),
    [
        (
            [["driver-type", "io.containerd.snapshotter.v1"]],
            "this Docker engine cannot limit disk space: its containerd image store ignores the limit of a container",
        ),
        (
            [["Backing Filesystem", "extfs"]],
            "this Docker engine cannot limit disk space: its data is not on xfs with the mount option pquota",
        ),
    ],
)
def test_rejects_a_disk_limit_that_the_engine_cannot_enforce(
    docker: FakeDocker, status: list[list[str]], what: str
) -> None:
    docker.says("info", out=json.dumps(status))
    with pytest.raises(UserError) as error:
        require_disk_limit(DOCKER, {"a": "20g"})
    assert str(error.value) == f"limits.disk: {what}; {WITHOUT}"


def test_rejects_a_disk_limit_if_volumes_exist_without_this_limit(docker: FakeDocker) -> None:
    docker.says("info", out=json.dumps(XFS)).says("volume ls", out="a\nb\nc\nother\n")
    found = [
        {"name": "a", "options": {"size": "20g"}},
        {"name": "b", "options": None},
        {"name": "c", "options": {"size": "9g"}},
    ]
    docker.says("volume inspect", out="\n".join(map(json.dumps, found)))
    with pytest.raises(UserError) as error:
        require_disk_limit(DOCKER, dict.fromkeys(("a", "b", "c", "new"), "20g"))
    assert str(error.value) == (
        "limits.disk: the volumes exist without this limit: b, c; agent-sandbox destroy removes them, with the agent's "
        f"state, and agent-sandbox up makes new ones; or {WITHOUT}"
    )
    assert docker.calls[-1].endswith(" a b c")


def test_accepts_a_disk_limit_for_new_volumes(docker: FakeDocker) -> None:
    docker.says("info", out=json.dumps(XFS)).says("volume ls")
    require_disk_limit(DOCKER, {"a": "20g"})
