"""What a fake docker says of a stack's containers."""

import json

from fake_docker import FakeDocker


def with_containers(docker: FakeDocker, **states: str) -> FakeDocker:
    """Have one container for each service: `healthy`, `unhealthy`, `starting` run, other states are the container's."""
    found = [_inspected(service, state) for service, state in states.items()]
    docker.says("ps --all --quiet", out="".join(f"{service}\n" for service in states))
    return docker.says("inspect --type container", out=json.dumps(found))


def _inspected(service: str, state: str) -> dict[str, object]:
    health = {"Health": {"Status": state}} if state in {"healthy", "unhealthy", "starting"} else {}
    return {
        "Id": service.ljust(64, "0"),
        "Config": {"Image": "agent-sandbox/x:1", "Labels": {"com.docker.compose.service": service}},
        "State": {"Status": "running" if health else state, "ExitCode": 1, **health},
    }
