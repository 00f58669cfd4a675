"""Suggest built-in services in a denial. They are never used to decide."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from agent_sandbox.policy import Decision, Policy, Request, advise, decide
from agent_sandbox.policy.explain.git_command import git_command
from agent_sandbox.policy.explain.matching_services import ServiceIndex, matching_services
from agent_sandbox.policy.explain.package_manager import PackageManager, package_manager_of
from agent_sandbox.policyfile.package_managers import package_managers
from agent_sandbox.policyfile.sources import git_services, is_source
from agent_sandbox.problems import UserError

type Load = Callable[[], Mapping[str, Policy]]


class ServiceHints:
    """The built-in services, read in a thread because they are many files. Until then there are no suggestions."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._known = ServiceIndex({})

    def read(self) -> threading.Thread:
        """Start reading. The thread is not a daemon: Python can crash if it exits while a daemon thread runs."""
        reading = threading.Thread(target=self._read, name="services")
        reading.start()
        return reading

    def _read(self) -> None:
        package_managers()
        is_source("")  # reads its list
        git_services()
        # The file of a resolved service may have problems; `policy check` reports them.
        with suppress(UserError):
            self._known = ServiceIndex(self._load())

    def matching_services(self, request: Request, policy: Policy) -> tuple[str, ...]:
        """Return the services that would allow `request` and that the policy does not list yet."""
        return matching_services(request, self._known.about(request.host), policy)

    def advise(self, request: Request, policy: Policy) -> str:
        """Return what would allow `request`; empty if it is allowed."""
        services, tool = self.matching_services(request, policy), self.package_manager(request)
        return advise_with(request, decide(policy, request), services, tool, policy.layers)

    def package_manager(self, request: Request) -> PackageManager | None:
        """Return the package manager that seems to have sent `request`: only its configuration names its registry."""
        return package_manager_of(request, package_managers())


def advise_with(
    request: Request,
    decision: Decision,
    services: Sequence[str],
    package_manager: PackageManager | None,
    layers: Collection[str],
) -> str:
    """Return what would allow `request`, with a git server's or registry's service first."""
    return advise(
        request,
        decision,
        services=services,
        services_first=any(map(is_source, services)),
        package_manager=package_manager,
        git_command=git_command(request, git_services(), layers),
    )
