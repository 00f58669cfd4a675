"""`agent-sandbox update [AGENT...]`."""

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from msgspec.structs import replace
from typer import Argument, Option

from agent_sandbox.agents.manifest import AgentManifest, NpmPackage
from agent_sandbox.agents.pin import INTEGRITY, VERSION, Pin, is_newer
from agent_sandbox.agents.together import sentence
from agent_sandbox.bounded_json import read_json
from agent_sandbox.cli.framework.errors import DONE, FIXABLE, INTERRUPTED
from agent_sandbox.cli.framework.options import ExtraCa, ProjectPath, Quiet, Yes
from agent_sandbox.cli.terminal.output import emit_lines, say
from agent_sandbox.features.policy.registries import tool_environment
from agent_sandbox.features.stack.execute import backend, driver, execute
from agent_sandbox.features.stack.init.build_inputs import build_of
from agent_sandbox.features.stack.init.initialise import InitOptions
from agent_sandbox.features.stack.start_stack import start
from agent_sandbox.features.stack.write_stack import require_no_conflict, write_stack
from agent_sandbox.features.trust.trust_gate import open_trusted
from agent_sandbox.host.agents import agents_beside, load_agents, remember_versions
from agent_sandbox.host.process import TIMED_OUT, Finished, capture
from agent_sandbox.host.user_dirs import state_directory
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import agent_images, open_project

completions = agents_beside
Agents = Annotated[
    list[str] | None,
    Argument(help="The agents to update; by default all of the project.", metavar="AGENT"),
]
Check = Annotated[bool, Option(help="Only report newer versions; the exit code is 1 if there are any.")]


FIXED = "is locked with its dependencies; newer versions come with agent-sandbox"
SECONDS = 60.0
FIELDS = ("name", "version", "dist.integrity")
CODE = re.compile(r"^npm (?:ERR!|error) code (\S{1,40})$", re.MULTILINE)
NO_NPM = "npm is not installed on this machine, so nobody can be asked for the newest version"
NO_NPM_HINT = "install Node.js with npm; its configuration says which registry to ask"
NO_ANSWER_HINT = "check the network and npm's configuration (npm config list); nothing was changed"

type Ask = Callable[[NpmPackage], Finished | None]


def update(  # noqa: PLR0913 - each is an option
    agents: Agents = None,
    *,
    path: ProjectPath = None,
    check: Check = False,
    extra_ca: ExtraCa = None,
    yes: Yes = "",
    quiet: Quiet = False,
) -> int:
    """Update the agents of a project to their newest versions, and restart the stack if it is running.

    npm on this machine says what is newest, from the registry that it is configured for. The project file records the
    version and the hash of the package, which the image's build checks. State and sessions are kept. Nothing is updated
    unless you run this command.
    """
    project = open_trusted(path, cwd=Path.cwd(), yes=yes)
    current = load_agents(project.agents, project.pins)
    newer = _newer(_chosen(current.manifests, tuple(agents or ())), project.root)
    if check or not newer:
        return FIXABLE if newer else DONE
    pins = {**current.pins, **newer}
    wish = InitOptions(
        agents=project.agents,
        path=project.root,
        pins=pins,
    )
    require_no_conflict(write_stack(wish, dry_run=True))  # before minutes of building
    images = agent_images(replace(project, pins=pins))
    try:
        execute(backend().build(build_of(images, extra_ca=extra_ca)), quiet=quiet)
    except KeyboardInterrupt:
        say("interrupted: nothing was updated")
        return INTERRUPTED
    require_no_conflict(write_stack(wish))
    running = any(one.service == "agent" and one.state == "running" for one in driver().observe(project.name))
    if not running:
        say(f"updated {sentence([*newer])}: agent-sandbox up starts the new version")
        return DONE
    updated = open_project(project.root, cwd=project.root)
    code = start(updated, extra_ca=extra_ca, quiet=quiet)
    if not (code or quiet):
        say(f"updated {sentence([*newer])}; sign-in, settings and sessions are kept")
    return code


def _chosen(manifests: Sequence[AgentManifest], names: Sequence[str]) -> Sequence[AgentManifest]:
    """Return the manifests of these agents, or of all; raise UserError for one that the project does not have."""
    known = [one.name for one in manifests]
    if missing := [name for name in names if name not in known]:
        hint = f"this project has {sentence(known)}"
        raise UserError([Problem(where="", what=f"no agent `{name}` in this project", hint=hint) for name in missing])
    return [one for one in manifests if one.name in names] if names else manifests


def _newer(manifests: Sequence[AgentManifest], project: Path) -> dict[str, Pin]:
    """Print what is newest of each agent, and return the pins of those that have a newer version."""
    ask = asking_npm(tool_environment(os.environ, project=project))
    newer: dict[str, Pin] = {}
    seen: dict[str, str] = {}
    for one in manifests:
        if one.install.npm is None:
            emit_lines([f"{one.name}  {one.version}  {FIXED}"])
            continue
        found = newest(one.name, one.install.npm, ask)
        seen[one.name] = found.version
        if is_newer(found.version, one.version):
            newer[one.name] = found
            emit_lines([f"{one.name}  {one.version} -> {found.version}"])
        else:
            emit_lines([f"{one.name}  {one.version}  is the newest version"])
    remember_versions(state_directory(os.environ), seen)
    return newer


def asking_npm(environment: Mapping[str, str]) -> Ask:
    """Return the function that asks npm about a package, with these variables changed; None if npm is missing."""
    program = shutil.which("npm", path=environment.get("PATH", os.defpath))

    def ask(package: NpmPackage) -> Finished | None:
        if program is None:
            return None
        argv = (program, "view", f"{package.package}@latest", *FIELDS, "--json")
        return capture(argv, cwd=Path("/"), environment=environment, timeout=SECONDS)

    return ask


def newest(name: str, package: NpmPackage, ask: Ask) -> Pin:
    """Return the newest version of the agent `name` on npm; raise UserError if npm does not name one."""
    answer = ask(package)
    if answer is None:
        raise UserError([Problem(where=name, what=NO_NPM, hint=NO_NPM_HINT)])
    if answer.code:
        code = CODE.search(answer.err)
        unknown = answer.err if answer.code == TIMED_OUT else f"exit code {answer.code}"
        why = printable(code[1] if code else unknown)
        what = f"npm cannot look up {package.package}: {why}"
        raise UserError([Problem(where=name, what=what, hint=NO_ANSWER_HINT)])
    try:
        said = read_json(answer.out)
        found, version, integrity = (str(said[field]) for field in FIELDS)
    except (ValueError, LookupError, TypeError):
        found = version = integrity = ""
    if found != package.package or not (VERSION.fullmatch(version) and INTEGRITY.fullmatch(integrity)):
        what = f"npm's answer about {package.package} has no version with a sha512 hash"
        raise UserError([Problem(where=name, what=what, hint=NO_ANSWER_HINT)])
    return Pin(version=version, integrity=integrity)
