"""Check the project: its policy, files, images and owner."""

import os
import shlex
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.backends.project import Project
from agent_sandbox.images import DIGEST_LABEL
from agent_sandbox.render.record import parse_record
from agent_sandbox.resources import data_root
from agent_sandbox.runtime.compose.engine import labels_of
from agent_sandbox.runtime.doctor.machine import Machine
from agent_sandbox.runtime.doctor.result import CheckResult, fail, ok, warn
from agent_sandbox.runtime.doctor.users import mapped_owner, namespace_of
from agent_sandbox.runtime.host.files import read_text
from agent_sandbox.runtime.init.facts import owner_of
from agent_sandbox.runtime.policies.layers import layers_here, load_here
from agent_sandbox.runtime.policies.missing_services import lacking
from agent_sandbox.runtime.policies.unmounted_layers import left_out
from agent_sandbox.runtime.project.dotenv import FILE as DOTENV
from agent_sandbox.runtime.project.dotenv import variable
from agent_sandbox.runtime.project.installed import bound_by, images_of, is_own
from agent_sandbox.runtime.project.root import COMPOSE_FILE
from agent_sandbox.runtime.trust.prompt import unseen_in
from agent_sandbox.stack.limits import DEFAULT, beyond, kept, told

# The engine's warnings when it lacks a cgroup controller.
HELD_BY = {"MemoryLimit": "memory", "CpuCfsQuota": "cpus", "PidsLimit": "pids"}


def templates(machine: Machine) -> CheckResult:  # noqa: ARG001 - every check takes the machine
    """Check that all shipped agent manifests load."""
    folder = data_root() / "templates"
    agents = known_agents(folder)
    for agent in agents:
        load_manifest(folder, agent)
    if not agents:
        return fail("templates", f"there are none in {folder}", "install agent-sandbox again")
    return ok("templates", ", ".join(agents))


def stack(machine: Machine) -> CheckResult:
    """Check that the stack belongs to this directory and that the user trusts it."""
    project = machine.project
    if not is_own(project):
        what = f"{project.name} belongs to another directory: this project was moved, copied or cloned"
        return fail("stack", what, f"agent-sandbox init {project.agent} makes a new stack for this directory")
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
    for missed in left_out(machine.project, os.environ):
        return warn("policy", missed)
    if loaded.refusal:
        return warn("policy", f"everything is denied: {loaded.refusal}", f"edit {machine.project.policy}")
    for missed in lacking(machine.project, lambda: loaded):
        return warn("policy", missed)
    return ok("policy", f"{len(loaded.rules.rules)} rules, digest {loaded.digest[:12]}")


def _read_by_the_proxy(project: Project) -> Iterator[tuple[Path, Callable[[Sequence[str]], str]]]:
    """Yield each policy file that the proxy reads, and a function from unreadable paths to the fixing command."""
    yield project.policy, lambda closed: f"chmod -R o+rX {shlex.quote(closed[0])}"
    bound = bound_by(project.root, "proxy")
    for layer in layers_here(os.environ, beside=project.policy):
        if str(layer.path.parent.resolve()) in bound:
            # Only these paths, not the whole folder, which is private to the user.
            yield layer.path, lambda closed: f"chmod o+rX {shlex.join(closed)}"


def _closed(path: Path) -> bool:
    """Return whether others cannot read it, as with a umask of 077 or 027."""
    wanted = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    return path.stat().st_mode & wanted != wanted


def images(machine: Machine) -> CheckResult:
    """Check that every image exists and was built from this version's files."""
    wanted = {image.name: image.digest for image in images_of(machine.project)}
    found = {name: labels.get(DIGEST_LABEL) for name, labels in labels_of(tuple(wanted)).items()}
    missing = [name for name in wanted if name not in found]
    outdated = [name for name in found if found[name] != wanted[name]]
    if missing or outdated:
        states = [f"{name} is missing" for name in missing] + [f"{name} is outdated" for name in outdated]
        return warn("images", ", ".join(states), "agent-sandbox build (agent-sandbox up does it too)")
    return ok("images", ", ".join(wanted))


def dotenv(machine: Machine) -> CheckResult:
    """Check that plain `docker compose` in this directory uses the same stack."""
    project = machine.project
    hint = f"agent-sandbox init {project.agent} writes both lines and keeps the rest"
    text = read_text(project.root, DOTENV)
    if text is None:
        return warn("dotenv", f"there is no {DOTENV}: plain `docker compose` does not find the stack", hint)
    named = (variable(text, "COMPOSE_FILE") or "").split(variable(text, "COMPOSE_PATH_SEPARATOR") or ":")
    if str(COMPOSE_FILE) not in named:
        return warn("dotenv", f"COMPOSE_FILE in {DOTENV} does not name {COMPOSE_FILE}", hint)
    name = variable(text, "COMPOSE_PROJECT_NAME")
    if name != project.name:
        what = f"COMPOSE_PROJECT_NAME in {DOTENV} is {name or 'not set'}, the stack is {project.name}"
        return fail("dotenv", what, hint)
    return ok("dotenv", f"{DOTENV} names the stack")


def limits(machine: Machine) -> CheckResult:
    """Check that the agent's limits are below what the Docker host has."""
    project = machine.project
    record = parse_record(read_text(project.root, str(COMPOSE_FILE)) or "")
    chosen = record.limits if record else DEFAULT
    words = told(chosen)
    unheld = [name for key, name in HELD_BY.items() if machine.info.get(key) is False]
    if unheld:
        what = f"this engine cannot limit {', '.join(unheld)}: the agent may use all of the machine"
        return warn("limits", what, "a rootless engine needs the cgroup controllers delegated to it; see `docker info`")
    has = beyond(chosen, memory=machine.info["MemTotal"], cpus=machine.info["NCPU"])
    # More processors than the machine has are harmless: processor time is shared.
    over = [f"{name} {words[name]} of {most}" for name, most in has.items() if name == "memory" or name in kept(chosen)]
    if over:
        what = f"the agent's limits are above what the Docker host has: {', '.join(over)}"
        hint = f"agent-sandbox init {project.agent} --memory SIZE --cpus NUMBER, then agent-sandbox up"
        return warn("limits", what, hint)
    return ok("limits", ", ".join(f"{name} {text}" for name, text in words.items()))


def owner(machine: Machine) -> CheckResult:
    """Check that `dev` has the uid and gid of the project's owner, if the engine does not map them."""
    project = machine.project
    if not machine.is_local:
        return ok("owner", "the Docker engine runs in a virtual machine, which maps owners")
    if kind := namespace_of(machine.info):
        return mapped_owner(machine, kind)
    real = owner_of(project.root)
    if real != project.owner:
        what = f"the files belong to {real.uid}:{real.gid}, but dev inside is {project.owner.uid}:{project.owner.gid}"
        return fail("owner", what, f"agent-sandbox init {project.agent}, then agent-sandbox up")
    if belongs_to_root(project.root):
        what = f"the files belong to root, but dev inside is {real.uid}:{real.gid}: the agent can only read them"
        return fail("owner", what, f"chown -R {real.uid}:{real.gid} {shlex.quote(str(project.root))}")
    return ok("owner", f"dev is {real.uid}:{real.gid}, like the project's owner")


def belongs_to_root(root: Path) -> bool:
    """Return whether only root may write there; `dev` is never root."""
    return root.stat().st_uid == 0
