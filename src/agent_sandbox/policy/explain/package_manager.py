"""Guess which package manager sent a request, from its User-Agent or the path. Used only in suggestions.

The registry's host is in the tool's configuration on the host machine, so no host is known here.
"""

from collections.abc import Iterable

from msgspec import Struct

from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policy.match.path_pattern import PathPattern

LONGEST_CLIENT = 100  # characters of a User-Agent that are compared


class PackageManager(Struct, frozen=True, kw_only=True):
    """A tool, its resolved service, and how to recognise its clients and the paths of its registry.

    `clients` are the beginnings of their User-Agents, case-folded.
    """

    tool: str
    service: str
    clients: tuple[str, ...]
    paths: tuple[PathPattern, ...]

    @property
    def way(self) -> str:
        """The command that finds the registry and allows it."""
        return f"agent-sandbox policy allow {self.tool}"


def package_manager_of(request: Request, package_managers: Iterable[PackageManager]) -> PackageManager | None:
    """Return the package manager that seems to have sent the request, by User-Agent first, then by path.

    A client can forge both.
    """
    known = tuple(package_managers)
    agent = next((value for name, value in request.headers if name == "user-agent"), "")[:LONGEST_CLIENT].casefold()
    ways = readings(request.path)
    named = (package_manager for package_manager in known if agent.startswith(package_manager.clients))
    shaped = (
        package_manager
        for package_manager in known
        if any(path.matches(way) for path in package_manager.paths for way in ways)
    )
    return next(named, None) or next(shaped, None)
