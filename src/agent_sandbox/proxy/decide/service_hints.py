"""What the shipped services would have allowed: told with a denial, and never decided by."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from agent_sandbox.policy import Policy, Request
from agent_sandbox.policy.explain.matching_services import matching_services
from agent_sandbox.policy.explain.package_manager import PackageManager, package_manager_of
from agent_sandbox.policyfile.package_managers import package_managers
from agent_sandbox.problems import UserError

type Load = Callable[[], Mapping[str, Policy]]


class ServiceHints:
    """Knows the services once they are read: their files are many, and nobody waits for them."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._known: Mapping[str, Policy] = {}

    def read(self) -> threading.Thread:
        """Begin to read them. The process does not end in the middle of it: Python can abort over such a thread."""
        reading = threading.Thread(target=self._read, name="services")
        reading.start()
        return reading

    def _read(self) -> None:
        package_managers()
        # One that was resolved for this project may have a file with problems; `policy check` tells them.
        with suppress(UserError):
            self._known = self._load()

    def matching_services(self, request: Request, policy: Policy) -> tuple[str, ...]:
        """Return the services that would allow the request, and that the policy does not name yet."""
        return matching_services(request, self._known, policy)

    def package_manager(self, request: Request) -> PackageManager | None:
        """Return the tool that seems to ask for packages, whose registry only its own configuration names."""
        return package_manager_of(request, package_managers())
