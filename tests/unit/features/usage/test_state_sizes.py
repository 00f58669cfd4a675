import json

from agent_sandbox.engines.drivers import load_driver
from agent_sandbox.features.usage.state_sizes import state_sizes
from fake_docker import FakeDocker, docker

__all__ = ["docker"]


def test_the_volumes_of_all_stacks_are_added_up_by_agent(docker: FakeDocker) -> None:
    rows = "a-1 a-1_ca-private\na-1 a-1_state-x\na-1 a-1_local-x\na-1 a-1_log\nother other_state-x\n"
    sizes = [{"Name": line.split()[1], "Size": "1MB", "Labels": ""} for line in rows.splitlines()]
    docker.says("volume ls", out=rows).says("ps --all").says("system df", out=json.dumps(sizes))
    found = state_sizes(load_driver())
    assert found is not None
    assert found["x"] == 2_000_000
