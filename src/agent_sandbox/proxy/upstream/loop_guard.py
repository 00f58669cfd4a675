"""Does an address lead to the proxy itself? A private place that does would have it ask itself, again and again."""

import socket


class LoopGuard:
    """Knows at which ports the proxy listens, once it does."""

    def __init__(self) -> None:
        self._ports: frozenset[int] = frozenset()

    def listens(self, *places: str) -> None:
        """Take note of places such as `0.0.0.0:8080`."""
        self._ports = frozenset(int(place.rpartition(":")[2]) for place in places)

    def is_at(self, address: str, port: int) -> bool:
        """Tell whether a connection to there would be one to the proxy, by whichever interface of its machine."""
        return port in self._ports and _is_here(address)


def _is_here(address: str) -> bool:
    # A socket is bound to addresses of this machine's alone.
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
