"""Collect the status of a stack."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from agent_sandbox.backends.project import Project
from agent_sandbox.policytools.suggest.noise_filter import why_not_suggested
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.driver.container import Container
from agent_sandbox.runtime.driver.protocol import Driver
from agent_sandbox.runtime.project.installed import limits_said
from agent_sandbox.runtime.protect.gaps import Gaps, look_over
from agent_sandbox.runtime.protect.mount_checks import Inside, look_inside
from agent_sandbox.runtime.proxy.decisions import is_probe
from agent_sandbox.runtime.refusals import Refusals, read_refusals
from agent_sandbox.runtime.webhook.outcome import Failure

# More than are shown, because probes are left out.
DENIALS = 200
SHOWN = 5


class Loaded(StrEnum):
    """How the policy on disk relates to the one in the proxy."""

    CURRENT = "current"
    EDITED = "edited"
    INVALID = "invalid"  # and no proxy runs
    KEPT = "invalid-kept"  # and the proxy uses the last valid one
    DENYING = "invalid-denying"  # and the proxy has no valid one
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A stack, its policy, and the last denials."""

    project: Project
    unseen: tuple[str, ...]
    containers: tuple[Container, ...]
    host_digest: str
    problems: tuple[Problem, ...]
    proxy: Mapping[str, Any]
    denials: tuple[Mapping[str, Any], ...]
    # How many of the last denials no rule can allow, such as those that `verify` causes.
    unopened: int = 0
    refusals: Refusals | None = None
    missing_services: tuple[str, ...] = ()
    unmounted_layers: tuple[str, ...] = ()
    stale_services: tuple[str, ...] = ()
    inside: Inside = field(default_factory=Inside)
    connected: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    sharing: tuple[str, ...] = ()
    gaps: Gaps = field(default_factory=Gaps)
    # The sources of secrets, by name.
    sources: Mapping[str, str] = field(default_factory=dict)
    # Why the last message to the user's webhook did not arrive.
    webhook: Failure | None = None
    # Those of its clones that run.
    clones: tuple[str, ...] = ()
    # The agent's limits after the next `up`.
    limits: Mapping[str, str] = field(default_factory=dict)

    @property
    def loaded_digest(self) -> str:
        """The digest of the proxy's policy, or an empty string if it does not answer."""
        return str(self.proxy.get("policy", {}).get("digest", ""))

    @property
    def loaded(self) -> Loaded:
        """How the proxy's policy relates to the one on disk."""
        if not self.loaded_digest:
            return Loaded.INVALID if self.problems else Loaded.UNKNOWN
        in_force = self.proxy["policy"].get("valid") is not False
        if self.problems:
            return Loaded.KEPT if in_force else Loaded.DENYING
        if not in_force:
            return Loaded.REFUSED
        return Loaded.CURRENT if self.host_digest == self.loaded_digest else Loaded.EDITED

    @property
    def known_problems(self) -> tuple[str, ...]:
        """The problems of the policy file: of the current one, or else those that the proxy reported."""
        return tuple(map(str, self.problems)) or tuple(map(str, self.proxy.get("policy", {}).get("problems", ())))


type Ask = Callable[[Container, tuple[str, ...]], Mapping[str, Any]]


def look(  # noqa: PLR0913 - each is a question of its own
    driver: Driver,
    project: Project,
    *,
    ask: Ask,
    digest: Callable[[], str],
    missing_services: tuple[str, ...] = (),
    unmounted_layers: tuple[str, ...] = (),
    stale_services: tuple[str, ...] = (),
    unseen: tuple[str, ...] = (),
    sources: Mapping[str, str] = MappingProxyType({}),
    webhook: Failure | None = None,
    clones: tuple[str, ...] = (),
) -> Status:
    """Collect the status; a stopped proxy or an invalid policy is part of it, not an error."""
    found = driver.observe(project.name)
    proxy = next((one for one in found if one.service == "proxy" and one.state == "running"), None)
    with ThreadPoolExecutor() as pool:  # each question starts a program in a container
        said = pool.submit(lambda: _asked(ask, proxy, "status") if proxy else {})
        denied = pool.submit(lambda: _denials(ask, proxy) if proxy else ((), 0))
        inside = pool.submit(look_inside, driver, found, project.root)
        refusals = pool.submit(read_refusals, driver, found, now=datetime.now(UTC))
        host_digest, problems = _checked(digest)
        intruders = driver.intruders(found, project.name)
    denials, unopened = denied.result()
    return Status(
        project=project,
        unseen=unseen,
        sources=sources,
        webhook=webhook,
        clones=clones,
        containers=found,
        host_digest=host_digest,
        problems=problems,
        proxy=said.result(),
        denials=denials,
        unopened=unopened,
        refusals=refusals.result(),
        missing_services=missing_services,
        unmounted_layers=unmounted_layers,
        stale_services=stale_services,
        inside=inside.result(),
        connected=intruders.connected,
        strangers=intruders.strangers,
        sharing=tuple(one.mending for one in intruders.sharing),
        gaps=look_over(project.root),
        limits=_limits(project),
    )


def _limits(project: Project) -> Mapping[str, str]:
    """Return the limits in the project's stack file; nothing if it is invalid or another file may override it."""
    try:
        return limits_said(project.root) if len(project.files) == 1 else {}
    except UserError:
        return {}


def _checked(digest: Callable[[], str]) -> tuple[str, tuple[Problem, ...]]:
    try:
        return digest(), ()
    except UserError as error:
        return "", error.problems


def _asked(ask: Ask, proxy: Container, *argv: str) -> Mapping[str, Any]:
    try:
        return ask(proxy, argv)
    except UserError:
        return {}


def _denials(ask: Ask, proxy: Container) -> tuple[tuple[Mapping[str, Any], ...], int]:
    """Return the last denials that a rule could allow, and the number of all others."""
    lines = _asked(ask, proxy, "denials", "--count", str(DENIALS)).get("denials", [])
    asked = [line for line in lines if not is_probe(line)]
    wanted = [line for line in asked if line.get("host") and not why_not_suggested(str(line["host"]))]
    return tuple(wanted[-SHOWN:]), len(asked) - len(wanted)
