"""`agent-sandbox status`."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, short_path
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.counted import counted, times
from agent_sandbox.engines.container import Container
from agent_sandbox.features.clones.running_clones import running_clones_or_none
from agent_sandbox.features.protect.mount_checks import CONNECTED, REPLACED, SHARING, STRANGER, listed
from agent_sandbox.features.proxy.control import ask_proxy
from agent_sandbox.features.proxy.decisions import local_time
from agent_sandbox.features.secrets.sources.all_recipes import recipes_for
from agent_sandbox.features.stack.cut_off import CUT_OFF, cut_off
from agent_sandbox.features.stack.execute import driver
from agent_sandbox.features.stack.refusals import NOT_COUNTED
from agent_sandbox.features.stack.status import SHOWN, Loaded, Status, ask_all, look
from agent_sandbox.features.traffic.decision_line import decision_table
from agent_sandbox.features.trust.prompt import unseen_in
from agent_sandbox.features.watch.webhook_outcome import last_failure
from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import clone_at, path_option
from agent_sandbox.project.installed import open_project, read_facts
from agent_sandbox.stack.containers import FIREWALL, is_beside
from agent_sandbox.stack.engine import HOST

if TYPE_CHECKING:
    from agent_sandbox.policy.explain.matching_services import ServiceIndex

COUNTED = "requests  {allowed} allowed{failed}, {denied} denied since the proxy started"
FAILURES = "allowed but failed: {} since the proxy started; the last:"
HINTED = "hints (not decisions) about {} since the proxy started; the last:"
CHECKED = "; and {starts} checks by the sandbox itself"
REFUSED = "refused  {} by the firewall in the last day: agent-sandbox logs{} --firewall"
UNSEEN = "{} {} not trusted: agent-sandbox trust{}"
UNOPENED = "  and {} that no rule can allow (private, reserved, malformed): agent-sandbox proxy logs{} --denied"
TELEMETRY = "  and {} of telemetry, without which agents work: agent-sandbox proxy logs{} --denied"
LEARNS = "policy learn allows what no rule denies for {} more: agent-sandbox policy learn stop{}"
CLOCK = f"the proxy's clock is {{}}, so certificates fail: set the clock of the {HOST}"
# The style of each label that begins a line.
LABELS = {"trust": "warn", "closed": "warn", "open": "fail", "policy": "title", "limits": "title", "log": "warn"}
LABELS |= {"requests": "title", "refused": "title", "webhook": "warn", "clones": "title", "beside": "warn"}
LEAST = 9  # the width of the column of services
PLACE = re.compile(r"(?::[0-9]+){1,2}\Z")
NOT_RUNNING = "not running: agent-sandbox up"
FAILED = "beside  {0} {1}: agent-sandbox logs{2} {0}; then agent-sandbox up{2}"
# States in which a container neither runs nor is about to restart.
ENDED = {"created", "exited", "dead", "paused"}
RELOAD, CHECK = "agent-sandbox proxy reload", "agent-sandbox policy check"
# `agent-sandbox policy check` prints the rest.
PROBLEMS = 3
SAID = {
    Loaded.CURRENT: "loaded",
    Loaded.EDITED: f"edited since the proxy loaded it: {RELOAD}",
    Loaded.INVALID: f"invalid: {CHECK}",
    Loaded.KEPT: f"invalid: {CHECK}; the proxy uses the last valid one until you restart it",
    Loaded.DENYING: f"invalid: {CHECK}; the proxy denies everything",
    Loaded.REFUSED: f"not in force: the proxy could not read it and denies everything: {RELOAD}",
    Loaded.UNKNOWN: "not loaded: the proxy is down",
}
# Certificates tolerate a smaller difference.
TOLERATED = timedelta(minutes=5)
UNITS = {"days": timedelta(days=1), "hours": timedelta(hours=1), "minutes": timedelta(minutes=1)}


def status(*, path: ProjectPath = None, json: Json = False) -> None:
    """Show the stack, its health, whether the proxy uses the policy on disk, and the last denials."""
    project = open_project(path, cwd=Path.cwd())

    def ask(proxy: Container, argv: tuple[str, ...]) -> Mapping[str, Any]:
        return ask_proxy(driver(), proxy, *argv)

    with ThreadPoolExecutor() as pool:  # the engine answers while the files are read
        answers = pool.submit(ask_all, pool, driver(), project, ask=ask)
        from agent_sandbox.features.policy.layers import load_here  # noqa: PLC0415 - while the engine answers
        from agent_sandbox.features.policy.missing_services import missing_services  # noqa: PLC0415 - while the engine answers
        from agent_sandbox.features.policy.registries import this_machine  # noqa: PLC0415 - while the engine answers
        from agent_sandbox.features.policy.stale_services import stale_services  # noqa: PLC0415 - while the engine answers
        from agent_sandbox.features.policy.unmounted_layers import unmounted_layers  # noqa: PLC0415 - while the engine answers

        # A layer that the proxy cannot see does not make its policy an old one.
        mounted = read_facts(project.root).layers
        load = cache(lambda: load_here(project.policy, os.environ, mounted=mounted))
        found = look(
            project,
            answers=answers.result,
            digest=lambda: load().digest,
            missing_services=missing_services(project, load),
            unmounted_layers=unmounted_layers(project, os.environ),
            stale_services=stale_services(project.policy, this_machine(os.environ, project=project.root)),
            unseen=unseen_in(project.root, os.environ),
            sources=_sources(project.root),
            is_telemetry=_telemetry(project.policy),
            webhook=last_failure(project.root, os.environ),
            clones=tuple(one.name for one in running_clones_or_none(project.root)),
        )
    if json:
        emit_json(as_json(found))
    else:
        emit_lines(map(_labelled, as_text(found)))


def _telemetry(policy: Path) -> Callable[[str], bool]:
    """Return a function that says whether all services with a host are those of telemetry; they load when it asks."""

    @cache
    def index() -> "ServiceIndex":
        from agent_sandbox.features.policy.layers import offers_here  # noqa: PLC0415 - as above
        from agent_sandbox.policy.explain.matching_services import ServiceIndex  # noqa: PLC0415 - only for denials

        try:
            return ServiceIndex(offers_here(policy, os.environ))
        except UserError:  # of a project's own services: `policy check` reports them
            return ServiceIndex({})

    def is_telemetry(host: str) -> bool:
        services = index().about(host)
        return bool(services) and all(name.endswith("-telemetry") for name in services)

    return is_telemetry


def as_json(found: Status) -> dict[str, Any]:
    """Return the status as JSON."""
    project = found.project
    return {
        "project": project.name,
        "root": str(project.root),
        "agent": project.agents[0],
        "agents": list(project.agents),
        "unseen": list(found.unseen),
        "services": [
            {
                "service": c.service,
                "state": c.state,
                "health": c.health,
                "ready": c.ready,
                "image": c.image,
                "limits": dict(c.limits),
                "out_of_memory": c.out_of_memory,
                "restarts": c.restarts,
            }
            for c in found.containers
        ],
        "policy": {
            "file": str(project.policy),
            "state": found.loaded.value,
            "host_digest": found.host_digest,
            "loaded_digest": found.loaded_digest,
            "problems": to_builtins(found.problems),
            "lacking": list(found.missing_services),
            "left_out": list(found.unmounted_layers),
            "stale": list(found.stale_services),
            "in_proxy": dict(found.proxy.get("policy", {})),
        },
        "clones": list(found.clones),
        "limits_after_up": dict(_waiting(found)),
        "connected": list(found.connected),
        "strangers": list(found.strangers),
        "sharing": list(found.sharing),
        "cut_off": found.inside.cut_off,
        "clock": _clock(found),
        "workspace": {
            "lost": list(found.inside.lost),
            "unprotected": to_builtins(found.gaps.unprotected),
            "unsearched": list(found.gaps.unsearched),
        },
        "secrets": list(found.proxy.get("secrets", ())),
        **{key: found.proxy.get(key, {}) for key in ("log", "requests", "failed", "hints")},
        "webhook": found.webhook and to_builtins(found.webhook),
        "learning_seconds": found.proxy.get("learning_seconds", 0),
        "denials": list(found.denials),
        "unopened_denials": found.unopened,
        "telemetry_denials": found.telemetry,
        "refusals": found.refusals
        and {
            "counted": found.refusals.counted,
            "total": found.refusals.total,
            "last": [one.as_json() for one in found.refusals.agents[-SHOWN:]],
        },
    }


def as_text(found: Status) -> Iterator[str]:
    """Yield the status as text."""
    project = found.project
    width = max((len(c.condition) for c in found.containers), default=0)
    digest = (found.host_digest[:12],) if found.host_digest else ()
    clone = clone_at(project.root, os.environ)
    place = f"{clone.name}, a clone of {short_path(clone.project)}" if clone else str(project.root)
    option = path_option(project.root, os.environ, cwd=Path.cwd())
    policy = (", ".join(_policy_files(found)), *digest, _said(found.loaded, option))
    requests = found.proxy.get("requests", {})
    failed = f" ({count} failed)" if (count := found.proxy.get("failed", {}).get("count")) else ""
    line = f"{COUNTED}{CHECKED if requests.get('starts') else ''}"
    counts = [line.format(**requests, failed=failed)] if requests else []
    yield styled((project.name, "title"), f"  {' '.join(project.agents)}  {place}")
    if found.unseen:
        verb = "are" if len(found.unseen) > 1 else "is"
        yield f"trust   {UNSEEN.format(', '.join(found.unseen), verb, option)}"
    shown = [one for one in found.containers if not (one.service.startswith(FIREWALL) and one.ready)]
    names = max((len(one.service) for one in shown), default=0)
    yield from (_container_line(container, max(names, LEAST), width) for container in shown)
    yield from () if found.containers else (styled("  ", ("not running:", "warn"), f" agent-sandbox up{option}"),)
    yield from _ended(found.containers, option)
    yield from (f"closed  {name}: {CUT_OFF}: agent-sandbox up{option}" for name in cut_off(found.containers))
    if found.clones:
        yield f"clones  running: {listed(found.clones)}"
    yield from ([f"closed  {CLOCK.format(off)}"] if (off := _clock(found)) else [])
    yield f"policy  {' '.join(policy)}"
    yield from _learns(found.proxy.get("learning_seconds", 0), option)
    yield from _kept(found.proxy.get("policy", {}))
    yield from (f"  {line}" for line in found.proxy.get("policy", {}).get("upstream", ()))
    yield from (f"  {note}" for note in (*found.missing_services, *found.unmounted_layers, *found.stale_services))
    yield from (f"  {problem}" for problem in found.known_problems[:PROBLEMS])
    yield from _limits(found, option)
    yield from _workspace(found, option)
    yield from _secrets(found, option)
    yield from _log(found.proxy.get("log", {}))
    if found.webhook:
        yield f"webhook  {found.webhook.why} ({local_time(found.webhook.time)})"
    yield from counts
    yield from _last(FAILURES, found.proxy.get("failed", {}))
    yield from _last(HINTED, found.proxy.get("hints", {}))
    yield from _denials(found, option)
    yield from _refused(found, option)


def _said(loaded: Loaded, option: str) -> str:
    return SAID[loaded].replace(RELOAD, RELOAD + option).replace(CHECK, CHECK + option)


def _labelled(line: str) -> str:
    """Return a line with its label in its style, if it has one."""
    label, space, text = line.partition("  ")
    return styled((label, LABELS[label]), f"{space}{text}") if label in LABELS else line


def _container_line(container: Container, name: int, width: int) -> str:
    style = "ok" if container.ready else "fail" if container.state in ENDED or container.health else "warn"
    condition = (f"{container.condition:<{width}}", style)
    return styled(f"  {container.service:<{name}} ", condition, f"  {container.image}{_restarts(container)}")


def _denials(found: Status, option: str) -> Iterator[str]:
    if found.denials or found.unopened or found.telemetry:
        yield styled(("last denials", "title"))
    yield from decision_table(found.denials)
    if found.unopened:
        yield UNOPENED.format(found.unopened, option)
    if found.telemetry:
        yield TELEMETRY.format(found.telemetry, option)


def _last(title: str, found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the last records of a kind below their title, with how many there are."""
    if found.get("last"):
        yield styled((title.format(counted(found["count"], "request")), "title"))
        yield from decision_table(found["last"])


def _policy_files(found: Status) -> list[str]:
    """Return the project's policy file, or the invalid files: each layer is a separate file."""
    files = dict.fromkeys(Path(PLACE.sub("", problem.where)) for problem in found.problems if problem.where)
    root = found.project.root
    named = list(files) or [found.project.policy]
    return [str(file.relative_to(root) if file.is_relative_to(root) else file) for file in named]


def _kept(policy: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a line with the times of a failed reload and of the policy in force, if the proxy reports one."""
    since, loaded = policy.get("problems_since"), policy.get("loaded")
    if not (since and loaded):
        return ()
    return (f"  invalid since {local_time(str(since))}; the policy from {local_time(str(loaded))} is in force",)


def _ended(containers: Iterable[Container], option: str) -> Iterator[str]:
    """Yield a line with the stopped containers, and one for each service beside the sandbox that failed.

    A restarted engine starts only the proxy.
    """
    failed = [one for one in containers if is_beside(one.service) and _has_failed(one)]
    ended = ", ".join(one.service for one in containers if one.state in ENDED and one not in failed)
    if ended:
        yield f"closed  {ended}: {NOT_RUNNING}{option}"
    yield from (FAILED.format(one.service, one.condition, option) for one in failed)


def _has_failed(container: Container) -> bool:
    return container.state in {"exited", "dead"} or container.condition == "unhealthy"


def _secrets(found: Status, option: str) -> Iterator[str]:
    """Yield a line for each secret that has no value, or not for much longer, or that a server refuses."""
    for one in found.proxy.get("secrets", ()):
        source = f" ({found.sources[one['name']]})" if one["name"] in found.sources else ""
        if one.get("refused_by"):
            sync = f"renew it there, then agent-sandbox secret sync{option}"
            fix = sync if source else f"agent-sandbox secret set{option} replaces it"
            yield f"secret  {one['name']} was refused by {one['refused_by']}{_at(one.get('refused'))}{source}: {fix}"
        else:
            trouble = f"has no value now: {one['problem']}" if one["problem"] else "expires soon"
            yield f"secret  {one['name']} {trouble}{_at(one.get('expires'))}{source}: agent-sandbox secret sync{option}"


def _at(seconds: object) -> str:
    """Return when something happens, in local time; an empty string for no time."""
    from agent_sandbox.features.proxy.secrets import time_of  # noqa: PLC0415 - only to print the answers

    time = time_of(seconds)
    return f" at {local_time(time.isoformat())}" if time else ""


def _sources(root: Path) -> Mapping[str, str]:
    """Return the sources of the project's secrets by name, none if they cannot be read: other commands say why."""
    try:
        return {one.name: one.source for one in recipes_for(root, os.environ)}
    except UserError:
        return {}


def _clock(found: Status) -> str:
    return clock_off(found.proxy["clock"], now=datetime.now(UTC)) if "clock" in found.proxy else ""


def _restarts(container: Container) -> str:
    """Return how often the engine restarted a container, if it did."""
    if not container.restarts:
        return ""
    why = ", once out of memory" if container.restarts > 1 else ", out of memory"
    return f"  restarted {times(container.restarts)}{why if container.out_of_memory else ''}"


def _limits(found: Status, option: str) -> Iterator[str]:
    limits = _in_force(found)
    if limits:
        after = {name: f" ({text} after agent-sandbox up{option})" for name, text in _waiting(found).items()}
        yield f"limits  {', '.join(f'{name} {text}{after.get(name, "")}' for name, text in limits.items())}"


def _in_force(found: Status) -> Mapping[str, str]:
    return next((c.limits for c in found.containers if c.service == "agent"), {})


def _waiting(found: Status) -> Mapping[str, str]:
    """Return the agent's limits that differ between the stack file and the running container."""
    limits = _in_force(found)
    return {name: text for name, text in found.limits.items() if text != limits.get(name, text)}


def _learns(seconds: int, option: str) -> Iterator[str]:
    if seconds:
        minutes = -(-seconds // 60)
        yield f"open    {LEARNS.format(counted(minutes, 'minute'), option)}"


def _log(log: Mapping[str, Any]) -> Iterator[str]:
    if log.get("dropped"):
        now = f", and it still cannot be written: {log['error']}" if log.get("error") else "; it is written again"
        yield f"log     {counted(log['dropped'], 'record')} lost{now}"


def _refused(found: Status, option: str) -> Iterator[str]:
    if found.refusals is None:
        return
    if not found.refusals.counted and any(c.service == "agent" and c.ready for c in found.containers):
        yield f"refused  {NOT_COUNTED}"  # counting begins when the agent container has started
    if found.refusals.total:
        yield REFUSED.format(found.refusals.total, option)
        yield from (f"  {one.as_text(shape='%H:%M:%S')}" for one in found.refusals.agents[-SHOWN:])


def _workspace(found: Status, option: str) -> Iterator[str]:
    if found.inside.cut_off:
        yield f"closed  {found.inside.cut_off}: agent-sandbox up{option}"
    yield from (f"open    {path}: {REPLACED}: agent-sandbox up{option}" for path in found.inside.lost)
    yield from (f"open    {CONNECTED}: {mending}" for mending in found.connected)
    yield from (f"open    {STRANGER}: {mending}" for mending in found.strangers)
    yield from (f"open    {SHARING}: {mending}" for mending in found.sharing)
    if found.gaps.unprotected:
        paths = listed([one.path for one in found.gaps.unprotected])
        yield f"open    {paths}: not protected: agent-sandbox doctor{option}"
    if found.gaps.unsearched:
        yield f"open    {listed(found.gaps.unsearched)}: not searched for repositories: agent-sandbox doctor{option}"


def clock_off(said: str, *, now: datetime) -> str:
    """Return how far off the proxy's clock is, or an empty string: its machine may be a virtual one that slept.

    >>> from datetime import UTC
    >>> clock_off("2026-03-01T10:00:00Z", now=datetime(2026, 3, 1, 7, tzinfo=UTC))
    '3 hours ahead'
    """
    off = datetime.fromisoformat(said) - now
    if abs(off) < TOLERATED:
        return ""
    name, unit = next((name, unit) for name, unit in UNITS.items() if abs(off) >= 2 * unit)
    return f"{round(abs(off) / unit)} {name} {'ahead' if off > timedelta() else 'behind'}"
