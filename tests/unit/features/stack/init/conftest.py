from init_project import init

__all__ = ["init"]
