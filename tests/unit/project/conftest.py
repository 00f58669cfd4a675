from fake_docker import docker
from in_memory import repositories_in_memory
from init_project import init

__all__ = ["docker", "init", "repositories_in_memory"]
