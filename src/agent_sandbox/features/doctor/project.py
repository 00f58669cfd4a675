"""Check the project: its stack, policy, firewall and images."""

import os
import shlex
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agent_sandbox.counted import counted
from agent_sandbox.engines.protocol import Machine
from agent_sandbox.engines.result import CheckResult, fail, ok, warn
from agent_sandbox.features.policy.layers import layers_here, load_here
from agent_sandbox.features.policy.missing_services import missing_services
from agent_sandbox.features.policy.registries import this_machine
from agent_sandbox.features.policy.stale_services import stale_services
from agent_sandbox.features.policy.unmounted_layers import unmounted_layers
from agent_sandbox.features.secrets.sources.fetch import Host, fetch
from agent_sandbox.features.stack.refusals import NOT_COUNTED, read_refusals
from agent_sandbox.features.trust.prompt import unseen_in
from agent_sandbox.features.watch.webhook_outcome import last_failure
from agent_sandbox.host.agents import built_in, known_agents, load_manifest
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import images_of, is_own, read_facts
from agent_sandbox.project.project import Project


def templates(machine: Machine) -> CheckResult:  # noqa: ARG001 - every check takes the machine
    """Check that all shipped agent manifests load."""
    agents = known_agents()
    for agent in agents:
        load_manifest(agent)
    if not agents:
        return fail("templates", f"none found in {built_in()}", "install agent-sandbox again")
    return ok("templates", f"{len(agents)} agents: `agent-sandbox agents` lists them")


def stack(machine: Machine) -> CheckResult:
    """Check that the stack belongs to this directory and that the user trusts it."""
    project = machine.project
    if not is_own(project):
        what = f"{project.name} belongs to another directory: this project was moved, copied or cloned"
        return fail("stack", what, f"{project.init} makes a new stack for this directory")
    unseen = unseen_in(project.root, os.environ)
    if unseen:
        what = f"{', '.join(unseen)} is not trusted"
        return warn("stack", what, "agent-sandbox trust shows it and asks")
    return ok("stack", f"{project.name} in {project.root}")


def policy(machine: Machine) -> CheckResult:
    """Check that the policy loads and that the proxy can read it."""
    loaded = load_here(machine.project.policy, os.environ)
    for file, opening in _read_by_the_proxy(machine.project):
        closed = [str(path) for path in (file.parent, file) if _closed(path)]
        if closed and machine.is_local:
            what = f"the proxy runs as another user, cannot read these and denies everything: {', '.join(closed)}"
            return fail("policy", what, opening(closed))
    for missed in unmounted_layers(machine.project, os.environ):
        return warn("policy", missed)
    if loaded.refusal:
        return warn("policy", f"everything is denied: {loaded.refusal}", f"edit {machine.project.policy}")
    for missed in missing_services(machine.project, lambda: loaded):
        return warn("policy", missed)
    here = this_machine(os.environ, project=machine.project.root)
    for stale in stale_services(machine.project.policy, here, afresh=True):
        return warn("policy", stale)
    return ok("policy", f"{counted(len(loaded.rules.rules), 'rule')}, digest {loaded.digest[:12]}")


def _read_by_the_proxy(project: Project) -> Iterator[tuple[Path, Callable[[Sequence[str]], str]]]:
    """Yield each policy file that the proxy reads, and a function from unreadable paths to the fixing command."""
    yield project.policy, lambda closed: f"chmod -R o+rX {shlex.quote(closed[0])}"
    bound = read_facts(project.root).layers
    for layer in layers_here(os.environ, beside=project.policy):
        if str(layer.path.parent.resolve()) in bound:
            # Only these paths, not the whole folder, which is private to the user.
            yield layer.path, lambda closed: f"chmod o+rX {shlex.join(closed)}"


def _closed(path: Path) -> bool:
    """Return whether others cannot read it, as with a umask of 077 or 027."""
    wanted = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    return path.stat().st_mode & wanted != wanted


def webhook(machine: Machine) -> Iterator[CheckResult]:
    """Check the webhook's file, if there is one, its key, and whether the last message about this project arrived."""
    from agent_sandbox.features.watch.webhook_file import read_webhook, webhook_file  # noqa: PLC0415 - few have one

    file, failure = webhook_file(os.environ), last_failure(machine.project.root, os.environ)
    if file is None:
        return
    root = machine.project.root
    spec = read_webhook(file, root)
    if missing := _problem_of_key(spec.key, root):
        yield warn("webhook", missing, f"fix `key` in {file}, or what it names: no question is sent without the key")
    elif failure:
        yield warn("webhook", f"the last message did not arrive: {failure.why} ({failure.time})", f"edit {file}")
    else:
        yield ok("webhook", f"questions are sent to {spec.shown}")


def _problem_of_key(source: str, root: Path) -> str:
    """Return why the webhook's key has no value, or an empty string."""
    try:
        fetch("the webhook's key", source, Host(root=root, environ=os.environ))
    except UserError as error:
        return "; ".join(problem.what for problem in error.problems)
    return ""


def images(machine: Machine) -> CheckResult:
    """Check that every image exists and was built from this version's files."""
    wanted = {image.name: image.digest for image in images_of(machine.project)}
    found = machine.driver.images(wanted)
    missing = [name for name in wanted if name not in found]
    outdated = [name for name in found if wanted[name] not in found[name]]
    if missing or outdated:
        states = [f"{name} is missing" for name in missing] + [f"{name} is outdated" for name in outdated]
        return warn("images", ", ".join(states), "agent-sandbox build (agent-sandbox up does it too)")
    return ok("images", ", ".join(wanted))


def firewall(machine: Machine) -> CheckResult:
    """Report how much was refused; counting begins when the agent container has started."""
    found = machine.driver.observe(machine.project.name)
    refusals = read_refusals(machine.driver, found)
    if refusals is None or not any(one.service == "agent" and one.ready for one in found):
        return ok("firewall", "not running")
    if not refusals.counted:
        what, _, hint = NOT_COUNTED.partition("; ")
        return warn("firewall", what, hint)
    return ok("firewall", f"{refusals.total} refused in the last day: agent-sandbox logs --firewall")
