"""A second client for the Docker engine: the `docker` package, at the endpoint that the command uses."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import docker

SERVICE = "com.docker.compose.service"


class NotLocalError(AssertionError):
    """The endpoint is one that only the command reaches."""


def endpoint() -> str:
    """Return the endpoint that the command uses now: of DOCKER_HOST, DOCKER_CONTEXT or the current context."""
    argv = ["docker", "context", "inspect", "--format", "{{json .Endpoints.docker}}"]
    return str(json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)["Host"])


@contextmanager
def second_client() -> Iterator[docker.DockerClient]:
    """Connect to the endpoint; for ssh, the package needs paramiko and knows nothing of the user's ssh settings."""
    address = endpoint()
    if not address.startswith("unix://"):
        raise NotLocalError(address)
    client = docker.DockerClient(base_url=address)
    try:
        yield client
    finally:
        client.close()


def containers(client: docker.DockerClient, project: str) -> dict[str, dict[str, Any]]:
    """Return the API's description of each container of a project, by service."""
    label = f"com.docker.compose.project={project}"
    listed = client.api.containers(all=True, filters={"label": label})
    found = (client.api.inspect_container(one["Id"]) for one in listed)
    return {one["Config"]["Labels"][SERVICE]: one for one in found}
