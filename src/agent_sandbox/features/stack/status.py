"""Collect the status of a stack."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from agent_sandbox.engines.container import Container, Intruders
from agent_sandbox.engines.protocol import Driver
from agent_sandbox.features.protect.gaps import Gaps, look_over
from agent_sandbox.features.protect.mount_checks import Inside, look_inside
from agent_sandbox.features.proxy.decisions import is_probe
from agent_sandbox.features.stack.refusals import Refusals, read_refusals
from agent_sandbox.features.watch.webhook_outcome import Failure
from agent_sandbox.policytools.suggest.noise_filter import why_not_suggested
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import read_facts
from agent_sandbox.project.project import Project

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


class Status(Struct, frozen=True, kw_only=True):
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
    # How many are for hosts that only receive telemetry.
    telemetry: int = 0
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
    sources: Mapping[str, str] = {}
    # Why the last message to the user's webhook did not arrive.
    webhook: Failure | None = None
    # Those of its clones that run.
    clones: tuple[str, ...] = ()
    # The agent's limits after the next `up`.
    limits: Mapping[str, str] = {}

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


class Answers(Struct, frozen=True, kw_only=True):
    """What the engine says about a stack, and what its containers say: the proxy, the agent and the firewall."""

    containers: tuple[Container, ...]
    proxy: Mapping[str, Any]
    inside: Inside
    refusals: Refusals | None
    intruders: Intruders


def ask_all(pool: Executor, driver: Driver, project: Project, *, ask: Ask) -> Answers:
    """Ask the engine, then all containers at once; a stopped proxy is part of the answers, not an error."""
    found = driver.observe(project.name)
    proxy = next((one for one in found if one.service == "proxy" and one.state == "running"), None)
    said = pool.submit(lambda: _said(ask, proxy) if proxy else {})
    inside = pool.submit(look_inside, driver, found, project.root)
    refusals = pool.submit(read_refusals, driver, found)
    intruders = driver.intruders(found, project.name)
    return Answers(
        containers=found,
        proxy=said.result(),
        inside=inside.result(),
        refusals=refusals.result(),
        intruders=intruders,
    )


def look(  # noqa: PLR0913 - each is a question of its own
    project: Project,
    *,
    answers: Callable[[], Answers],
    digest: Callable[[], str],
    missing_services: tuple[str, ...] = (),
    unmounted_layers: tuple[str, ...] = (),
    stale_services: tuple[str, ...] = (),
    unseen: tuple[str, ...] = (),
    sources: Mapping[str, str] = MappingProxyType({}),
    webhook: Failure | None = None,
    clones: tuple[str, ...] = (),
    is_telemetry: Callable[[str], bool] = lambda _host: False,
) -> Status:
    """Collect the status; an invalid policy is part of it, not an error."""
    host_digest, problems = _checked(digest)
    gaps, limits = look_over(project.root), _limits(project)
    said = answers()
    denials, unopened, telemetry = _denials(said.proxy.get("denials", ()), is_telemetry)
    return Status(
        project=project,
        unseen=unseen,
        sources=sources,
        webhook=webhook,
        clones=clones,
        containers=said.containers,
        host_digest=host_digest,
        problems=problems,
        proxy=said.proxy,
        denials=denials,
        unopened=unopened,
        telemetry=telemetry,
        refusals=said.refusals,
        missing_services=missing_services,
        unmounted_layers=unmounted_layers,
        stale_services=stale_services,
        inside=said.inside,
        connected=said.intruders.connected,
        strangers=said.intruders.strangers,
        sharing=tuple(one.mending for one in said.intruders.sharing),
        gaps=gaps,
        limits=limits,
    )


def _limits(project: Project) -> Mapping[str, str]:
    """Return the limits in the project's stack file; nothing if it is invalid or another file may override it."""
    try:
        return read_facts(project.root).limits if len(project.files) == 1 else {}
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


def _said(ask: Ask, proxy: Container) -> Mapping[str, Any]:
    """Return the proxy's status with its last denials; the proxy of an earlier version is asked for each."""
    count = str(DENIALS)
    both = _asked(ask, proxy, "status", "--denials", count)
    return both or {**_asked(ask, proxy, "status"), **_asked(ask, proxy, "denials", "--count", count)}


def _denials(
    lines: Sequence[Mapping[str, Any]], is_telemetry: Callable[[str], bool]
) -> tuple[tuple[Mapping[str, Any], ...], int, int]:
    """Return the last denials that a rule could allow, the number of those that none can, and of telemetry."""
    asked = [line for line in lines if not is_probe(line)]
    wanted = [line for line in asked if line.get("host") and not why_not_suggested(str(line["host"]))]
    needed = [line for line in wanted if not is_telemetry(str(line["host"]))]
    return tuple(needed[-SHOWN:]), len(asked) - len(wanted), len(wanted) - len(needed)
