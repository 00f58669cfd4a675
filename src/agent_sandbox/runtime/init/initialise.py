"""`init`: inspect a project, render its stack and compare it with the existing files. Writing is a second step."""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.agents.manifest import SLUG, NpmPackage
from agent_sandbox.agents.pin import Pins
from agent_sandbox.agents.together import Agents, sentence
from agent_sandbox.backends.renderers import load_renderer
from agent_sandbox.detect import gathered, namings, services_of
from agent_sandbox.images import Additions, agent_name, base_name, images_for, project_images, proxy_name
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.render.formats.header import INIT
from agent_sandbox.render.formats.template import Templates
from agent_sandbox.render.notes import notes
from agent_sandbox.render.paths import DOTENV, PATHS, POLICY, PROJECT_FILE, SHARED, STACK
from agent_sandbox.render.policy import Offered
from agent_sandbox.render.project import Rendered, reconcile, render_project
from agent_sandbox.render.reconcile import Change, OnConflict, Verdict
from agent_sandbox.render.record import Choices, Record, parse_choices, parse_document, parse_record
from agent_sandbox.resources import data_root
from agent_sandbox.runtime.git.worktree import NoGit, Outside, repository_outside
from agent_sandbox.runtime.host.agents import load_agents
from agent_sandbox.runtime.host.files import make_folders, read_text, remove_leftovers, write_all
from agent_sandbox.runtime.host.settings import user_settings
from agent_sandbox.runtime.init.facts import find_project, homes, look_at, machine, owner_of
from agent_sandbox.runtime.init.git_exclude import EXCLUDE, exclude_file, excluding, ignoring_here, to_exclude
from agent_sandbox.runtime.init.project_file import Asked, Settled, agents_named, settle
from agent_sandbox.runtime.init.settled_places import make_masked, with_own_places
from agent_sandbox.runtime.policies.scan import names_at_top, naming_files
from agent_sandbox.runtime.project.dotenv import variable
from agent_sandbox.runtime.protect.mount_checks import listed, read_only_mounts
from agent_sandbox.runtime.protect.protected import SEARCH, UNSEARCHED, Protection, find_protected, spelled
from agent_sandbox.runtime.protect.snapshot import recorded
from agent_sandbox.stack.build import StackImages, build_stack
from agent_sandbox.stack.engine import FILES_VARIABLE, NAME_VARIABLE, OWN_STACKS
from agent_sandbox.stack.limits import DEFAULT, Limits, beyond, kept
from agent_sandbox.stack.model import Stack
from agent_sandbox.stack.naming import TITLE_LENGTH
from agent_sandbox.stack.recorded import Ide, Owner
from agent_sandbox.stack.workspace import Mask, Workspace

if TYPE_CHECKING:
    from agent_sandbox.runtime.project.clone_record import Clone

# The directory with the settings of all clones, in the user's state.
CLONES = "clones"
NOT_IN_SUBMODULES = "inside, git ignores this worktree's submodules and does not work in them; it does in a clone"
LOST = "was protected and is now a link or a pipe, which cannot be protected"
LOST_HINT = "replace it with a file or a directory, or remove it; or run agent-sandbox init at a terminal and confirm"


class InitOptions(Struct, frozen=True, kw_only=True):
    """The user's options; None keeps an earlier `init`'s choice or takes the default."""

    agents: tuple[str, ...]
    path: Path
    title: str | None
    ide: Ide | None
    on_conflict: OnConflict
    detect: bool
    # Whether a new policy names the services that the project's files show.
    services: bool = True
    # A model provider that the first policy allows, of those that the agent works with.
    provider: str | None = None
    # Whether `.env` names the stack; by default not if the plain command of the engine already uses other files here.
    dotenv: bool | None = None
    # Whether `.gitignore` lists the files of this machine, for all who clone the project.
    gitignore: bool = False
    # By name, as given; others keep their value.
    limits: Mapping[str, str] = {}
    # Debian packages to add to the project file.
    packages: tuple[str, ...] = ()
    # The image that those of the project are built on, for the project file.
    base_image: str | None = None
    # Whether limits and versions count that an earlier `init` recorded.
    recorded: bool = True
    # Versions of agents to pin in the project file.
    pins: Pins | None = None
    # Whether to take the user's own settings of the agents along; None keeps the choice of an earlier `init`.
    settings: bool | None = None
    # Protected paths that the user agreed to unprotect.
    unprotect: frozenset[str] = frozenset()


class Prepared(Struct, frozen=True, kw_only=True):
    """Everything that `init` would do."""

    project: Path
    agents: Agents
    stack: Stack
    workspace: Workspace
    changes: tuple[Change, ...]
    offered: Offered
    notes: tuple[str, ...]
    protection: Protection
    # New files that git will not offer to commit, and the file that says so.
    excluded: tuple[str, ...] = ()
    exclude_file: str = EXCLUDE

    @property
    def conflicts(self) -> tuple[Change, ...]:
        """The files about which the user has to decide."""
        return tuple(change for change in self.changes if change.verdict is Verdict.KEPT)

    @property
    def texts(self) -> dict[str, str]:
        """The text of each file to write."""
        return {change.path: change.after for change in self.changes if change.writes}

    def only(self, paths: Collection[str]) -> "Prepared":
        """Return a copy that writes no other files."""
        return replace(self, changes=tuple(change for change in self.changes if change.path in paths))

    def write(self) -> None:
        """Write all changes or none; raise UserError if a protection would end without the user's agreement."""
        if self.protection.lost:
            raise UserError([Problem(where=path, what=LOST, hint=LOST_HINT) for path in self.protection.lost])
        texts = self.texts | excluding(self.project, self.excluded, self.exclude_file)
        remove_leftovers(self.project, (*PATHS, PROJECT_FILE))
        # The proxy reads the policy as another user; a file that is checked in is not secret.
        write_all(self.project, texts, shared={POLICY, PROJECT_FILE})
        make_folders(self.project, (one.path for one in self.workspace.protected if one.always))
        if not self.workspace.in_volume:
            make_masked(self.project, self.workspace.masks)


def prepare(options: InitOptions, environ: Mapping[str, str]) -> Prepared:
    """Return what `init` would write, without writing."""
    templates = Templates(data_root() / "templates")
    agents = load_agents(options.agents)
    providers = _providers(agents, options.provider)
    project = find_project(options.path, environ)
    present = {path: read_text(project, path) for path in PATHS if path != DOTENV}
    record = parse_record(present[STACK] or "")
    choices = parse_choices(present[SHARED] or "") or record
    chosen = _chosen(project, options, choices)
    agents = agents.with_pins(chosen.pins)
    dotenv = _uses_dotenv(project, choices, record, asked=options.dotenv)
    present[DOTENV] = _dotenv_text(project, used=dotenv, asked=options.dotenv)
    clone, git = _clone_at(project, environ), repository_outside(project, homes(environ))
    outside = git if isinstance(git, Outside) else None
    protection = _protection(project, present[STACK], options, environ, clone=clone, dotenv=dotenv, outside=outside)
    workspace = look_at(
        project,
        title=clone.title if clone else chosen.title or _own_title(project),
        is_titled=bool(chosen.title) and not clone,
        ide=chosen.ide,
        limits=chosen.limits,
        environ=environ,
        dotenv=dotenv,
        all_use_dotenv=_all_use_dotenv(project, choices, asked=options.dotenv, here=dotenv),
        settings=bool(record and record.settings) if options.settings is None else options.settings,
        protected=protection.paths,
        project_file=chosen.digest,
    )
    workspace = _with_own_places(workspace, chosen, agents, environ, clone=clone)
    stack = build_stack(agents, workspace, _images(agents, workspace.owner, chosen))
    offered = _offered(project, environ, options)
    file = load_renderer()(templates, stack, agents, workspace)
    rendered = render_project(templates, stack, agents, workspace, offered, stack_file=file, providers=providers)
    changes = (*_changes(rendered, present, record, options), *chosen.changes)
    changes = (*changes, ignoring_here(project, changes)) if options.gitignore else changes
    exclude = exclude_file(project, outside)
    excluded = to_exclude(project, changes, exclude) if exclude else ()
    return Prepared(
        project=project,
        agents=agents,
        stack=stack,
        workspace=workspace,
        changes=changes,
        offered=offered,
        notes=(
            *_switched(record, agents),
            *notes(changes, agents, offered, _own_stacks(project), providers),
            *_beyond(workspace.limits),
            *_about_pins(chosen.pins, agents),
            *_about_agents(workspace, agents, environ),
            *_about_git(git),
            *_about(protection, options.unprotect),
            *_kept_out_of_git(excluded, exclude),
            *_masked(project, () if clone else workspace.masks),
        ),
        protection=protection,
        excluded=excluded,
        exclude_file=exclude or EXCLUDE,
    )


def _clone_at(project: Path, environ: Mapping[str, str]) -> "Clone | None":
    """Return the clone whose settings are in this directory, or None for a project on this machine."""
    if project.parent.parent.name != CLONES:
        return None
    from agent_sandbox.runtime.project.clone_record import clone_at  # noqa: PLC0415 - most projects are none

    return clone_at(project, environ)


def _protection(  # noqa: PLR0913 - what a search depends on
    project: Path,
    stack_file: str | None,
    options: InitOptions,
    environ: Mapping[str, str],
    *,
    clone: "Clone | None",
    dotenv: bool,
    outside: Outside | None,
) -> Protection:
    """Return what to protect; nothing of a clone is on this machine."""
    if clone:
        return Protection(paths=())
    before, written = _protected_before(project, stack_file or "", environ), {DOTENV} if dotenv else set[str]()
    return find_protected(project, before=before, unprotect=options.unprotect, written=written, outside=outside)


def _with_own_places(
    workspace: Workspace, chosen: Settled, agents: Agents, environ: Mapping[str, str], *, clone: "Clone | None"
) -> Workspace:
    """Return the facts with what the project file says. A clone's volume belongs to the owner of its project."""
    if clone is None:
        return with_own_places(workspace, chosen, agents, environ, project=Path(workspace.path))
    workspace = replace(workspace, in_volume=True, owner=owner_of(clone.project))
    return with_own_places(workspace, chosen, agents, environ, project=clone.project)


def _changes(
    rendered: Rendered, present: Mapping[str, str | None], record: Record | None, options: InitOptions
) -> tuple[Change, ...]:
    former = frozenset({record.name} if record else ())
    return reconcile(rendered, present, former=former, on_conflict=options.on_conflict)


def _chosen(project: Path, options: InitOptions, choices: Choices | None) -> Settled:
    asked = Asked(
        agents=options.agents,
        title=_title(options),
        ide=options.ide,
        limits=options.limits,
        packages=options.packages,
        base_image=options.base_image,
        pins=options.pins,
    )
    # Earlier versions also recorded the directory's name.
    untitled = choices is None or (isinstance(choices, Record) and choices.title == _own_title(project))
    recorded = choices if options.recorded or not choices else replace(choices, limits=DEFAULT, pins={})
    return settle(project, asked, recorded, title="" if untitled or choices is None else choices.title)


def _images(agents: Agents, owner: Owner, chosen: Settled) -> StackImages:
    plain = agent_name(agents.names, owner, agents.pins, chosen.base_image)
    own = plain
    if chosen.added != Additions():
        own = project_images(images_for(agents, owner, chosen.base_image)[-1], chosen.added)[-1].name
    # A project cannot choose what its firewall is built on.
    return StackImages(proxy=proxy_name(), firewall=base_name() if chosen.base_image else plain, agent=own)


def _dotenv_text(project: Path, *, used: bool, asked: bool | None) -> str | None:
    """Return the text of `.env` if it names the stack, or if our lines in it are to be removed on request."""
    if asked is False:
        return _readable(project, DOTENV)
    return read_text(project, DOTENV) if used else None


def _uses_dotenv(project: Path, choices: Choices | None, record: Record | None, *, asked: bool | None) -> bool:
    """Return whether `.env` should name the stack: as asked or recorded, but never instead of the project's own."""
    if asked is not None:
        return asked
    if any(one and not one.dotenv for one in (choices, record)):
        return False
    text = _readable(project, DOTENV) or ""
    files, name = variable(text, FILES_VARIABLE), variable(text, NAME_VARIABLE)
    if files and files.startswith(STACK):
        return True
    return not _own_stacks(project) and (record is not None or (files, name) == (None, None))


def _all_use_dotenv(project: Path, choices: Choices | None, *, asked: bool | None, here: bool) -> bool:
    """Return the same for all clones: that the `.env` of this one names other files does not count."""
    if asked is not None:
        return asked
    return choices.dotenv if choices else here or not _own_stacks(project)


def _readable(project: Path, path: str) -> str | None:
    """Return a file's text, or None if it is a link or not text; the file is not used, so neither is an error."""
    try:
        return read_text(project, path)
    except UserError:
        return None


def _protected_before(project: Path, text: str, environ: Mapping[str, str]) -> frozenset[str]:
    """Return what the stack file protects now, and what it protected when the stack last started."""
    try:
        document = parse_document(text)
    except UserError:
        document = {}
    paths = read_only_mounts(document if isinstance(document, dict) else {}).union(recorded(project, environ).paths)
    return frozenset(path for path in paths if path.isprintable())


def _about_git(git: Outside | NoGit | None) -> Iterator[str]:
    match git:
        case Outside():
            yield f"git works inside on {git.common}: the agent can only add commits and change branches there"
            if git.has_submodules:
                yield NOT_IN_SUBMODULES
        case NoGit():
            yield f"git does not work inside: {git.why}; {git.hint}"


def _about(protection: Protection, unprotect: Collection[str]) -> Iterator[str]:
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


def _about_pins(pins: Pins, agents: Agents) -> Iterator[str]:
    """Yield notes about versions of the project file that are not used."""
    for agent in agents.manifests:
        pin = pins.get(agent.name)
        if pin is None or agent.name in agents.pins:
            continue
        unused = f"agent_versions: {agent.name} {pin.version} is not used"
        if not isinstance(agent.install, NpmPackage):
            yield f"{unused}: only agents from npm can have another version"
        elif pin.version != agent.install.version:
            yield f"{unused}: {agent.install.version} comes with agent-sandbox"


def _about_agents(workspace: Workspace, agents: Agents, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield which of the user's own settings are taken along, and who cannot use the project's MCP servers."""
    silent = [one.title for one in agents.manifests if not one.mcp]
    if workspace.mcp and silent:
        yield f"{sentence(silent)} cannot use the MCP servers of {PROJECT_FILE}"
    if workspace.settings is None:
        return
    taken = user_settings(agents, environ)
    yield f"your own settings that the agents see, read-only: {listed([*taken.files]) or 'none'}"
    yield from (f"not taken along: ~/{why}" for why in taken.left)


def _kept_out_of_git(excluded: Collection[str], file: str | None) -> Iterator[str]:
    if excluded:
        yield f"{file} keeps {listed([*excluded])} out of git: it belongs to this directory on this machine"


def _masked(project: Path, masks: Collection[Mask]) -> Iterator[str]:
    if made := [mask.path for mask in masks if not os.path.lexists(project / mask.path)]:
        yield f"{listed(made)}: created empty, because `mask` hides what is there"


def _offered(project: Path, environ: Mapping[str, str], options: InitOptions) -> Offered:
    """Return the services that the project's files show, and the hosts that they name.

    With `detect`, hosts that this machine also names are allowed. Hosts of a service that is resolved are left to it.
    """
    services = services_of(names_at_top(project)) if options.services else {}
    texts = naming_files(project)
    if not texts:
        return Offered(services=services, detect=options.detect)
    from agent_sandbox.runtime.policies.registries import (  # noqa: PLC0415 - only for projects that name hosts
        known_places,
        names_registries,
        this_machine,
        whole,
    )

    resolved = {path for path in texts for service in services if names_registries(service, path)}
    named = tuple(namings({path: text for path, text in texts.items() if path not in resolved}))
    detect = options.detect
    known = known_places(this_machine(environ, project=project)) if detect and named else frozenset()
    return Offered(
        services=services,
        allowed=gathered(one for one in named if whole(one[1]) in known),
        left=gathered(one for one in named if whole(one[1]) not in known),
        detect=detect,
    )


def agents_of(path: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the agents that the project file names, or those of the existing stack, if there is one."""
    project = find_project(path, environ)
    if named := agents_named(project):
        return named
    choices = parse_choices(read_text(project, SHARED) or "") or parse_record(read_text(project, STACK) or "")
    return choices.agents if choices else ()


def _beyond(chosen: Limits) -> Iterator[str]:
    """Yield a note for each chosen limit above what this machine has; `doctor` checks the defaults."""
    for name, has in beyond(chosen, **machine()).items():
        if name in kept(chosen):
            yield f"--{name} {kept(chosen)[name]} is more than this machine has ({has}), so it limits nothing"


def _switched(record: Record | None, agents: Agents) -> Iterator[str]:
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


def _providers(agents: Agents, chosen: str | None) -> tuple[str, ...]:
    """Return the chosen provider, or raise UserError if no agent works with it."""
    if chosen is None or chosen in agents.providers:
        return (chosen,) if chosen else ()
    names = sentence(agents.names)
    if not agents.providers:
        raise UserError([Problem(where="--provider", what=f"{names} has no providers to choose from")])
    hint = f"use one of: {', '.join(agents.providers)}"
    raise UserError([Problem(where="--provider", what=f"{names} has no provider `{chosen}`", hint=hint)])


def _own_stacks(project: Path) -> tuple[str, ...]:
    return tuple(name for name in OWN_STACKS if os.path.exists(project / name))[:1]


def _own_title(project: Path) -> str:
    return "".join(letter if letter.isprintable() else "-" for letter in project.name)[:TITLE_LENGTH]


def _title(options: InitOptions) -> str | None:
    if options.title is None:
        return None
    if not options.title.strip() or not options.title.isprintable() or len(options.title) > TITLE_LENGTH:
        what = f"{options.title!r} is not a valid name: use up to {TITLE_LENGTH} printable characters"
        raise UserError([Problem(where="--name", what=what)])
    return options.title
