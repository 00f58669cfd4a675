from initialising import init

__all__ = ["init"]
