from fake_docker import docker

__all__ = ["docker"]
