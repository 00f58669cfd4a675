"""`agent-sandbox verify`."""

import json as jsonlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.features.proxy.control import ask_proxy
from agent_sandbox.features.stack.execute import driver, require_running
from agent_sandbox.features.stack.refusals import read_refusals
from agent_sandbox.host.process import Finished
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project
from agent_sandbox.stack.containers import FIREWALL, PROBE

Full = Annotated[bool, Option(help="Try everything, not only what is tried at every start.")]
Capture = Annotated[
    str, Option(help="Your own listener that the agent must not reach; it is tried too.", metavar="HOST:PORT")
]
CODES = {0: DONE, 1: FIXABLE}
UNKNOWN_OPTION = 2
OTHER = Problem(where="the probe", what="the agent's image is of another version", hint="agent-sandbox up rebuilds it")
# A group that the agent cannot have: the firewall and the proxy recognise the probe by it, see ADR 38.
CHECKER_GROUP = 60_990
OVER_NETWORK, INSIDE = ("direct", "names", "network", "proxy"), ("privileges", "sockets", "walls")
# In the network of a service; its firewall's container has the probe, and the service's has what its image has.
FROM_SERVICES = ("direct", "names", "network")
NOBODY = "65534:65534"
SHOWN = 200
LONGEST_SECONDS = 120
# The verdicts that are not a leak.
STYLES = {"closed": "ok", "note": ""}
KEYS = ("group", "tried", "verdict", "told", "mend")


def verify(*, path: ProjectPath = None, full: Full = False, capture: Capture = "", json: Json = False) -> int:
    """Try every way out of the running agent container, and print what happened; exit 1 if something got out.

    No third party is contacted: probes go to the proxy, or to reserved addresses and names. `status` counts the
    denials as the sandbox's own checks.
    """
    project = open_project(path, cwd=Path.cwd())
    agent = require_running(project, "agent")
    options = ("--json", *(("--full",) if full else ()))
    listener = ("--capture", capture) if capture else ()
    with _announced(project):
        # Only the first can be denied anything by the proxy. Files must be tried with the agent's own group.
        checker = f"{project.owner.uid}:{CHECKER_GROUP}"
        runs = (
            driver().spawn(agent, PROBE, *options, *listener, *_only(OVER_NETWORK), user=checker).capture(),
            driver().spawn(agent, PROBE, *options, *_only(INSIDE)).capture(),
        )
        beside = _beside(project.name, options)
    probes = (*(probe for done in runs for probe in _probes(done)), *beside, _sharing(project.name))
    leaks = [one for one in probes if one["verdict"] not in STYLES]
    code = FIXABLE if leaks else max(CODES[done.code] for done in runs)
    if json:
        emit_json({"ok": code == DONE, "probes": probes})
    else:
        emit_lines((*(line for one in probes for line in _lines(one)), _sum(len(probes), len(leaks))))
    return code


def _beside(project: str, options: tuple[str, ...]) -> tuple[Mapping[str, Any], ...]:
    """Try every way out from the network of each service beside the sandbox."""
    found = [one for one in driver().observe(project) if one.service.startswith(FIREWALL) and one.state == "running"]
    return tuple(
        {**probe, "tried": f"{one.service.removeprefix(FIREWALL)}: {probe['tried']}"}
        for one in found
        for probe in _probes(driver().spawn(one, PROBE, *options, *_only(FROM_SERVICES), user=NOBODY).capture())
    )


def _only(groups: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for group in groups for word in ("--group", group))


@contextmanager
def _announced(project: Project) -> Iterator[None]:
    """Tell the proxy that the denials of the probe, until the end of the block, are not the agent's.

    The firewall reserves the probe's source ports. Where it cannot, the agent could use them, so nothing is announced.
    """
    found = read_refusals(driver(), driver().observe(project.name))
    if found is None or not found.counted or project.owner.gid == CHECKER_GROUP:
        yield
        return
    _announce(project, LONGEST_SECONDS)
    try:
        yield
    finally:
        _announce(project, 0)


def _announce(project: Project, seconds: int) -> None:
    with suppress(UserError):  # a proxy that is down or of another version counts them as before
        ask_proxy(driver(), project, "verify", "--seconds", str(seconds))


def _probes(done: Finished) -> tuple[Mapping[str, Any], ...]:
    """Return the probe's results, checked: the probe runs as the agent's user, which could forge the output."""
    if done.code == UNKNOWN_OPTION:
        raise UserError([OTHER])
    if done.code not in CODES:
        raise UserError([driver().explain(done.last_line, doing="running the probe")])
    try:
        probes = tuple(
            {**{key: str(one[key]) for key in KEYS}, "ms": one["ms"]} for one in jsonlib.loads(done.out)["probes"]
        )
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UserError([_unreadable(done.out)]) from error
    if not probes or not all(isinstance(one["ms"], int) for one in probes):
        raise UserError([_unreadable(done.out)])
    return probes


def _unreadable(output: str) -> Problem:
    return Problem(
        where="the probe",
        what=f"unexpected output: {printable(output[:SHOWN])}",
        hint="agent-sandbox up recreates the agent container if it is damaged",
    )


def _sharing(project: str) -> Mapping[str, Any]:
    """Return whether another container shares the network namespace, which only the host can see."""
    found = driver().intruders(driver().observe(project), project).sharing
    return {
        "group": "network",
        "tried": "containers in one namespace",
        "verdict": "LEAK" if found else "closed",
        "told": ", ".join(one.name for one in found) or "only the agent's own",
        "mend": "; ".join(one.mending for one in found),
        "ms": 0,
    }


def _lines(one: Mapping[str, Any]) -> Iterator[str]:
    words = {key: printable(str(value)) for key, value in one.items()}
    style = STYLES.get(one["verdict"], "fail")
    yield styled((f"{words['verdict']:<6}", style), "  {group:<10}  {tried:<35}  {told}".format(**words))
    if words["mend"]:
        yield f"        fix:  {words['mend']}"


def _sum(tried: int, leaks: int) -> str:
    return styled(f"{tried} tried, ", (f"{leaks or 'none'} got out", "fail" if leaks else "ok"))
