"""`init`: inspect a project, render its stack and compare it with the existing files. Writing is a second step."""

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.agents.pin import Pins
from agent_sandbox.agents.together import Agents, sentence
from agent_sandbox.detect import gathered, namings, services_of
from agent_sandbox.engines.renderers import load_renderer
from agent_sandbox.features.policy.registries import known_places, names_registries, this_machine, whole
from agent_sandbox.features.policy.scan import names_at_top, naming_files
from agent_sandbox.features.protect.protected import LOST, Protection, find_protected
from agent_sandbox.features.protect.snapshot import recorded
from agent_sandbox.features.stack.init import setup_notes
from agent_sandbox.features.stack.init.dotenv_choice import all_use_dotenv, dotenv_text, own_stacks, uses_dotenv
from agent_sandbox.features.stack.init.facts import find_project, homes, look_at
from agent_sandbox.features.stack.init.git_exclude import EXCLUDE, exclude_file, excluding, ignoring_here, to_exclude
from agent_sandbox.features.stack.init.project_file import Asked, Settled, agents_named, digest_of, settle
from agent_sandbox.features.stack.init.settled_places import make_masked, with_own_places
from agent_sandbox.host.agents import load_agents
from agent_sandbox.host.files import make_folders, read_text, remove_leftovers, write_all
from agent_sandbox.host.git.worktree import Outside, repository_outside
from agent_sandbox.images import NOTHING, agent_name, base_name, images_for, project_images, proxy_name
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.clone_record import clone_at
from agent_sandbox.project.installed import is_own, read_project
from agent_sandbox.project.owners import owner_of
from agent_sandbox.project.record import Record, facts_said, known, record_files, record_of, record_text
from agent_sandbox.project.render.formats.header import Provenance, provenance_of
from agent_sandbox.project.render.formats.template import Templates
from agent_sandbox.project.render.notes import notes
from agent_sandbox.project.render.paths import DOTENV, OF_THIS_CLONE, PATHS, POLICY, PROJECT_FILE, RECORD, SHARED, STACK
from agent_sandbox.project.render.policy import Offered
from agent_sandbox.project.render.project import Rendered, reconcile, render_project
from agent_sandbox.project.render.reconcile import Change, OnConflict, Verdict
from agent_sandbox.project.render.record import Choices, parse_choices
from agent_sandbox.projectfile.languages import packages_for
from agent_sandbox.resources import data_root
from agent_sandbox.stack.build import StackImages, build_stack
from agent_sandbox.stack.limits import DEFAULT
from agent_sandbox.stack.model import Stack
from agent_sandbox.stack.naming import TITLE_LENGTH
from agent_sandbox.stack.recorded import Ide, Owner
from agent_sandbox.stack.workspace import Workspace

if TYPE_CHECKING:
    from agent_sandbox.project.clone_record import Clone

# The directory with the settings of all clones, in the user's state.
CLONES = "clones"
LOST_HINT = "replace it with a file or a directory, or remove it; or run agent-sandbox init at a terminal and confirm"
NO_CHOICES = "it names no agent, or a limit that is not valid"
NO_PROJECT_FILE = "missing, although the sandbox was made from it: without it, what it masks would be visible"
NO_PROJECT_FILE_HINT = "check it in, or run agent-sandbox init to make the sandbox without it"
NO_CHOICES_HINT = "agent-sandbox init AGENT --force writes this file again"


class InitOptions(Struct, frozen=True, kw_only=True):
    """The user's options; None keeps an earlier `init`'s choice or takes the default."""

    agents: tuple[str, ...]
    path: Path
    title: str | None = None
    ide: Ide | None = None
    on_conflict: OnConflict = OnConflict.KEEP
    detect: bool = False
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
    # Debian packages to add to the project file; None: those of the languages that a new project's files show.
    packages: tuple[str, ...] | None = ()
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

    @property
    def record(self) -> str:
        """The text of the record, which belongs to the stack file and is not listed beside it."""
        stack_file = next(change.after for change in self.changes if change.path == STACK)
        return record_text(record_of(self.stack, self.workspace, self.agents.pins), stack_file)

    @property
    def written(self) -> dict[str, str]:
        """These texts, and that of the record unless it is there, or the stack file is kept as the user edited it."""
        kept = any(change.path == STACK for change in self.conflicts)
        is_there = kept or read_text(self.project, RECORD) == self.record
        return self.texts if is_there else {**self.texts, RECORD: self.record}

    def only(self, paths: Collection[str]) -> "Prepared":
        """Return a copy that writes no other files."""
        return replace(self, changes=tuple(change for change in self.changes if change.path in paths))

    def write(self) -> None:
        """Write all changes or none; raise UserError if a protection would end without the user's agreement."""
        if self.protection.lost:
            raise UserError([Problem(where=path, what=LOST, hint=LOST_HINT) for path in self.protection.lost])
        for change in self.changes:
            if change.writes and read_text(self.project, change.path) != change.before:
                what = "changed while this command ran, so nothing was written"
                raise UserError([Problem(where=str(self.project / change.path), what=what, hint="run it again")])
        texts = self.written | excluding(self.project, self.excluded, self.exclude_file)
        remove_leftovers(self.project, (*PATHS, RECORD, PROJECT_FILE))
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
    present = {path: read_text(project, path) for path in (*PATHS, RECORD) if path != DOTENV}
    record = known(present)
    choices = parse_choices(present[SHARED] or "") or record
    offered = _offered(project, environ, options, present)
    chosen = _chosen(project, options, choices, offered.languages)
    agents = agents.with_pins(chosen.pins)
    dotenv = uses_dotenv(project, choices, record, asked=options.dotenv)
    present[DOTENV] = dotenv_text(project, used=dotenv, asked=options.dotenv)
    clone, git = _clone_at(project, environ), repository_outside(project, homes(environ))
    outside = git if isinstance(git, Outside) else None
    protection = _protection(project, present, options, environ, clone=clone, dotenv=dotenv, outside=outside)
    workspace = look_at(
        project,
        title=clone.title if clone else chosen.title or _own_title(project),
        is_titled=bool(chosen.title) and not clone,
        ide=chosen.ide,
        limits=chosen.limits,
        environ=environ,
        dotenv=dotenv,
        all_use_dotenv=all_use_dotenv(project, choices, asked=options.dotenv, here=dotenv),
        settings=bool(record and record.settings) if options.settings is None else options.settings,
        protected=protection.paths,
        project_file=digest_of(chosen.text),
    )
    workspace = _with_own_places(workspace, chosen, agents, environ, clone=clone)
    stack = build_stack(agents, workspace, _images(agents, workspace.owner, chosen))
    file = load_renderer()(templates, stack, agents, workspace)
    rendered = render_project(templates, stack, agents, workspace, offered, stack_file=file, providers=providers)
    changes = _changes(project, rendered, present, record, options, also=chosen.changes)
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
            *setup_notes.changed_agents(record, agents),
            *notes(changes, agents, offered, own_stacks(project), providers, uses_dotenv=dotenv),
            *setup_notes.beyond_machine(workspace.limits),
            *setup_notes.unused_pins(chosen.pins, agents),
            *setup_notes.about_agents(workspace, agents, environ),
            *setup_notes.about_git(git),
            *setup_notes.about_protection(protection, options.unprotect),
            *setup_notes.kept_out_of_git(excluded, exclude),
            *setup_notes.about_languages(offered.languages),
            *(() if clone else setup_notes.about_masks(project, workspace.masks)),
        ),
        protection=protection,
        excluded=excluded,
        exclude_file=exclude or EXCLUDE,
    )


def _clone_at(project: Path, environ: Mapping[str, str]) -> "Clone | None":
    """Return the clone whose settings are in this directory, or None for a project on this machine."""
    if project.parent.parent.name != CLONES:
        return None
    return clone_at(project, environ)


def _protection(  # noqa: PLR0913 - what a search depends on
    project: Path,
    present: Mapping[str, str | None],
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
    before, written = _protected_before(project, present, environ), {DOTENV} if dotenv else set[str]()
    return find_protected(project, before=before, unprotect=options.unprotect, written=written, outside=outside)


def _with_own_places(
    workspace: Workspace, chosen: Settled, agents: Agents, environ: Mapping[str, str], *, clone: "Clone | None"
) -> Workspace:
    """Return the facts with what the project file says. A clone's volume belongs to the owner of its project."""
    if clone is None:
        return with_own_places(workspace, chosen, agents, environ, project=Path(workspace.path))
    workspace = replace(workspace, in_volume=True, owner=owner_of(clone.project))
    return with_own_places(workspace, chosen, agents, environ, project=clone.project)


def _changes(  # noqa: PLR0913, PLR0917 - what the changes depend on
    project: Path,
    rendered: Rendered,
    present: Mapping[str, str | None],
    record: Record | None,
    options: InitOptions,
    also: tuple[Change, ...],
) -> tuple[Change, ...]:
    former = frozenset({record.name} if record else ())
    changes = (*reconcile(rendered, present, former=former, on_conflict=options.on_conflict), *also)
    return (*changes, ignoring_here(project, changes)) if options.gitignore else changes


def _chosen(project: Path, options: InitOptions, choices: Choices | None, languages: Collection[str]) -> Settled:
    asked = Asked(
        agents=options.agents,
        title=_title(options),
        ide=options.ide,
        limits=options.limits,
        packages=packages_for(languages) if options.packages is None else options.packages,
        base_image=options.base_image,
        pins=options.pins,
    )
    # Earlier versions also recorded the directory's name.
    untitled = choices is None or (isinstance(choices, Record) and choices.title == _own_title(project))
    recorded = choices if options.recorded or not choices else replace(choices, limits=DEFAULT, pins={})
    return settle(project, asked, recorded, title="" if untitled or choices is None else choices.title)


def _images(agents: Agents, owner: Owner, chosen: Settled) -> StackImages:
    agent = agent_name(agents.names, owner, agents.pins, chosen.base_image)
    if chosen.added != NOTHING:
        images = images_for(agents, owner, chosen.base_image, chosen.added)
        agent = (*images, *project_images(images[-1], chosen.added))[-1].name
    elif not chosen.base_image:
        return StackImages(proxy=proxy_name(), agent=agent)
    # A project cannot choose what its firewall is built on.
    return StackImages(proxy=proxy_name(), firewall=base_name(), agent=agent)


def _protected_before(project: Path, present: Mapping[str, str | None], environ: Mapping[str, str]) -> frozenset[str]:
    """Return what the stack file protects now, and what it protected when the stack last started."""
    paths = {*recorded(project, environ).paths}
    with suppress(UserError):
        paths |= facts_said({STACK: present[STACK] or ""}, project).protected
    return frozenset(path for path in paths if path.isprintable())


def _offered(
    project: Path, environ: Mapping[str, str], options: InitOptions, present: Mapping[str, str | None]
) -> Offered:
    """Return the services that the project's files show, the languages of a new one, and the hosts that they name.

    With `detect`, hosts that this machine also names are allowed. Hosts of a service that is resolved are left to it.
    """
    services = services_of(names_at_top(project)) if options.services else {}
    is_new = present[STACK] is None and present[SHARED] is None and read_text(project, PROJECT_FILE) is None
    languages = services if is_new and options.packages is None else {}
    texts = naming_files(project)
    if not texts:
        return Offered(services=services, languages=languages, detect=options.detect)
    resolved = {path for path in texts for service in services if names_registries(service, path)}
    named = tuple(namings({path: text for path, text in texts.items() if path not in resolved}))
    detect = options.detect
    known = known_places(this_machine(environ, project=project)) if detect and named else frozenset()
    return Offered(
        services=services,
        languages=languages,
        allowed=gathered(one for one in named if whole(one[1]) in known),
        left=gathered(one for one in named if whole(one[1]) not in known),
        detect=detect,
    )


def agents_of(path: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the agents that the project file names, or those of the existing stack, if there is one."""
    project = find_project(path, environ)
    if named := agents_named(project):
        return named
    choices = parse_choices(read_text(project, SHARED) or "") or known(record_files(project))
    return choices.agents if choices else ()


def _providers(agents: Agents, chosen: str | None) -> tuple[str, ...]:
    """Return the chosen provider, or raise UserError if no agent works with it."""
    if chosen is None or chosen in agents.providers:
        return (chosen,) if chosen else ()
    names = sentence(agents.names)
    if not agents.providers:
        raise UserError([Problem(where="--provider", what=f"{names} has no providers to choose from")])
    hint = f"use one of: {', '.join(agents.providers)}"
    raise UserError([Problem(where="--provider", what=f"{names} has no provider `{chosen}`", hint=hint)])


def _own_title(project: Path) -> str:
    return "".join(letter if letter.isprintable() else "-" for letter in project.name)[:TITLE_LENGTH]


def _title(options: InitOptions) -> str | None:
    if options.title is None:
        return None
    if not options.title.strip() or not options.title.isprintable() or len(options.title) > TITLE_LENGTH:
        what = f"{options.title!r} is not a valid name: use up to {TITLE_LENGTH} printable characters"
        raise UserError([Problem(where="--name", what=what)])
    return options.title


def plan_clone_files(root: Path, environ: Mapping[str, str]) -> Prepared | None:
    """Return what to write where this clone's files differ from the choices. An edited file is kept.

    None for a copy of a project that still has the original's stack: `init` handles that.
    """
    text, is_new = read_text(root, SHARED) or "", not os.path.exists(root / STACK)
    choices = parse_choices(text)
    if choices is None and is_new and provenance_of(text) is not Provenance.FOREIGN:
        raise UserError([Problem(where=str(root / SHARED), what=NO_CHOICES, hint=NO_CHOICES_HINT)])
    if choices is None or not (is_new or is_own(read_project(root))):
        return None
    if choices.project_file and not os.path.exists(root / PROJECT_FILE):
        raise UserError([Problem(where=str(root / PROJECT_FILE), what=NO_PROJECT_FILE, hint=NO_PROJECT_FILE_HINT)])
    options = InitOptions(
        agents=agents_named(root) or choices.agents,
        path=root,
        services=False,
    )
    return prepare(options, environ).only(OF_THIS_CLONE)
