from fake_docker import docker
from init_project import init

__all__ = ["docker", "init"]
