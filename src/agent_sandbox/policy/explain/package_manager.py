"""Who asks for packages, by its own word or by what it asks for. It decides nothing: a denial tells who it may be.

Which registry a tool asks stands in the tool's configuration on the user's machine, so no host can be known here.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policy.match.path_pattern import PathPattern

LONGEST_CLIENT = 100  # of a User-Agent its beginning tells who it is


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageManager:
    """A tool, the service that is resolved from its configuration, and how its clients and its registry are known."""

    tool: str
    service: str
    clients: tuple[str, ...]
    paths: tuple[PathPattern, ...]

    @property
    def way(self) -> str:
        """What finds out which registry it is, and allows it."""
        return f"`agent-sandbox policy services resolve {self.service}`, then `- {self.service}` under `services`"


def package_manager_of(request: Request, package_managers: Iterable[PackageManager]) -> PackageManager | None:
    """Return who seems to ask: the User-Agent counts before the path, and anybody can write either."""
    known = tuple(package_managers)
    agent = next((value for name, value in request.headers if name == "user-agent"), "")[:LONGEST_CLIENT].casefold()
    ways = readings(request.path)
    named = (
        package_manager
        for package_manager in known
        if agent.startswith(tuple(client.casefold() for client in package_manager.clients))
    )
    shaped = (
        package_manager
        for package_manager in known
        if any(path.matches(way) for path in package_manager.paths for way in ways)
    )
    return next(named, None) or next(shaped, None)
