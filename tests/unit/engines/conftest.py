from fake_docker import docker
from in_memory import repositories_in_memory

__all__ = ["docker", "repositories_in_memory"]
