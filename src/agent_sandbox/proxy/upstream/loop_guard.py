"""Detect addresses of the proxy itself: a host service with such an address would make it connect to itself forever."""

import socket


class LoopGuard:
    """Knows the ports at which the proxy listens, once `listens` is called."""

    def __init__(self) -> None:
        self._ports: frozenset[int] = frozenset()

    def listens(self, *places: str) -> None:
        """Set the proxy's listening addresses, such as `0.0.0.0:8080`."""
        self._ports = frozenset(int(place.rpartition(":")[2]) for place in places)

    def is_at(self, address: str, port: int) -> bool:
        """Return whether the proxy listens at `address` and `port`, on any interface of its machine."""
        return port in self._ports and _is_here(address)


def _is_here(address: str) -> bool:
    # A socket can be bound only to an address of this machine.
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
