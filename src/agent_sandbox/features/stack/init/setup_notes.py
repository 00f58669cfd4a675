"""Notes of `init` about what it found and chose: agents, versions, limits, git, protection and masks."""

import os
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from pathlib import Path

from agent_sandbox.agents.fields import SLUG
from agent_sandbox.agents.pin import Pins
from agent_sandbox.agents.together import Agents, sentence
from agent_sandbox.features.protect.mount_checks import listed
from agent_sandbox.features.protect.protected import LOST, SEARCH, UNSEARCHED, Protection, spelled
from agent_sandbox.features.stack.init.dotenv_choice import readable_text
from agent_sandbox.features.stack.init.facts import machine
from agent_sandbox.host.git.worktree import NoGit, Outside
from agent_sandbox.host.settings import user_settings
from agent_sandbox.policy.match.injection import VARIABLE
from agent_sandbox.project.record import Record
from agent_sandbox.project.render.dotenv import assignments
from agent_sandbox.project.render.formats.header import INIT
from agent_sandbox.project.render.paths import DOTENV, PROJECT_FILE
from agent_sandbox.projectfile.languages import packages_for
from agent_sandbox.stack.limits import Limits, beyond, kept
from agent_sandbox.stack.workspace import Mask, Workspace

NOT_IN_SUBMODULES = "inside, git ignores this worktree's submodules and does not work in them; it does in a clone"


def changed_agents(record: Record | None, agents: Agents) -> Iterator[str]:
    """Yield what changes if the stack had other agents until now."""
    # The record is in a file that anyone may have written.
    former = [name for name in record.agents if SLUG.fullmatch(name)] if record else []
    if not former or former == [*agents.names]:
        return
    gone = [name for name in former if name not in agents.names]
    if gone:
        back = f"`{' '.join((INIT, *former))}` switches back"
        kept = f"{sentence(gone)}'s sign-in, settings and sessions are kept: {back}"
    elif len(former) < len(agents.names):
        kept = f"{sentence(former)}'s sign-in, settings and sessions stay as they are"
    else:
        kept = f"`agent-sandbox run` starts {agents.names[0]}"
    now, before = sentence(agents.names), sentence(former)
    yield f"the stack runs {now} instead of {before} from the next `agent-sandbox up`; {kept}"
    if agents.names[0] != former[0] in agents.names:
        first, earlier = agents.names[0], former[0]
        yield f"~/.local is {first}'s now; {earlier}'s is kept, and comes back when {earlier} is named first"


def beyond_machine(chosen: Limits) -> Iterator[str]:
    """Yield a note for each chosen limit above what this machine has; `doctor` checks the defaults."""
    for name, has in beyond(chosen, **machine()).items():
        if name in kept(chosen):
            yield f"--{name} {kept(chosen)[name]} is more than this machine has ({has}), so it limits nothing"


def unused_pins(pins: Pins, agents: Agents) -> Iterator[str]:
    """Yield notes about versions of the project file that are not used."""
    for agent in agents.manifests:
        pin = pins.get(agent.name)
        if pin is None or agent.name in agents.pins:
            continue
        unused = f"agent_versions: {agent.name} {pin.version} is not used"
        if agent.install.npm is None:
            yield f"{unused}: only agents from npm can have another version"
        elif pin.version != agent.version:
            yield f"{unused}: {agent.version} comes with agent-sandbox"


def about_agents(workspace: Workspace, agents: Agents, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield which of the user's own settings are taken along, and who cannot use the project's MCP servers."""
    silent = [one.title for one in agents.manifests if not one.mcp]
    if workspace.mcp and silent:
        yield f"{sentence(silent)} cannot use the MCP servers of {PROJECT_FILE}"
    if workspace.settings is None:
        return
    taken = user_settings(agents, environ)
    yield f"your own settings that the agents see, read-only: {listed([*taken.files]) or 'none'}"
    yield from (f"not taken along: ~/{why}" for why in taken.left)


def about_languages(languages: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield what the image of a new project gets because of its files, and how to undo that."""
    if languages:
        packages, files = ", ".join(packages_for(languages)), listed([*chain(*languages.values())])
        yield f"{PROJECT_FILE} installs {packages}, for {files}; to undo this, remove them from `packages`"


def about_git(git: Outside | NoGit | None) -> Iterator[str]:
    """Yield whether git works inside, in a worktree or a repository that is outside of the project."""
    match git:
        case Outside():
            yield f"git works inside on {git.common}: the agent can only add commits and change branches there"
            if git.has_submodules:
                yield NOT_IN_SUBMODULES
        case NoGit():
            yield f"git does not work inside: {git.why}; {git.hint}"


def about_protection(protection: Protection, unprotect: Collection[str]) -> Iterator[str]:
    """Yield notes about earlier protections, and about directories that were not searched."""
    if protection.kept:
        yield f"{listed(protection.kept)}: still protected, though this search found no reference to it"
    yield from (f"{path}: {LOST}" for path in protection.lost)
    if unprotect:
        yield f"{listed(sorted(unprotect))}: no longer protected: the agent can write it after the next start"
    if protection.gone:
        yield f"{listed(protection.gone)}: no longer protected, because it is gone"
    if protection.unsearched:
        yield f"{listed([*map(spelled, protection.unsearched)])}: {UNSEARCHED}; {SEARCH}"


def kept_out_of_git(excluded: Collection[str], file: str | None) -> Iterator[str]:
    """Yield which new files git will not offer to commit."""
    if excluded:
        yield f"{file} keeps {listed([*excluded])} out of git: it belongs to this directory on this machine"


def readable_dotenv(project: Path, masked: Collection[str]) -> Iterator[str]:
    """Yield which credentials in `.env` the agent can read, and how to hide them; only their names are shown."""
    found = {} if DOTENV in masked else assignments(readable_text(project, DOTENV) or "")
    names = [name for name, set_to in found.items() if set_to.value and VARIABLE.fullmatch(name)]
    if names:
        hide = f"`mask: [{DOTENV}]` in {PROJECT_FILE} hides it from the next `agent-sandbox up`"
        yield f"`{DOTENV}` holds {listed(names)}, which the agent can read: {hide}"


def about_masks(project: Path, masks: Collection[Mask]) -> Iterator[str]:
    """Yield which masked paths do not exist yet and are created, and what should be masked."""
    yield from readable_dotenv(project, {mask.path for mask in masks})
    if made := [mask.path for mask in masks if not os.path.lexists(project / mask.path)]:
        yield f"{listed(made)}: created empty, because `mask` hides what is there"
