"""Make, open and describe the clones of a project."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.cli.terminal.output import say, short_path
from agent_sandbox.counted import counted
from agent_sandbox.engines.place import Helper, Store
from agent_sandbox.engines.verbs import Create
from agent_sandbox.features.clones.clone_cache import bring_cache, cache_key, keep_cache
from agent_sandbox.features.clones.clone_policy import bring_policy
from agent_sandbox.features.clones.fetch import one_at_a_time, read_status
from agent_sandbox.features.clones.host_repository import (
    HEADS,
    HostRepository,
    Start,
    fetched_clones,
    open_repository,
    start_of,
    uncommitted_in,
)
from agent_sandbox.features.clones.volume import CloneVolume
from agent_sandbox.features.protect.mount_checks import listed
from agent_sandbox.features.review.unreviewed import record_first_review
from agent_sandbox.features.secrets.sources.recipes import recipes_of
from agent_sandbox.features.stack.execute import backend, driver, execute, is_running, run_helper
from agent_sandbox.features.stack.init.build_inputs import build_of
from agent_sandbox.features.stack.init.initialise import InitOptions, prepare
from agent_sandbox.host.files import problem_of, write_all
from agent_sandbox.images import proxy_name
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.clone_record import (
    Clone,
    clone_at,
    clone_named,
    clones_of,
    name_in,
    new_clone,
    path_option,
    require_name,
    save_clone,
)
from agent_sandbox.project.installed import agent_images, find_project, images_of, named_root, open_project
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.paths import PROJECT_FILE, SHARED
from agent_sandbox.project.render.reconcile import OnConflict
from agent_sandbox.project.trust_snapshot import Standing
from agent_sandbox.project.trust_snapshot import look as read_settings
from agent_sandbox.project.trust_store import open_store
from agent_sandbox.stack.containers import PROXY_USER, SECRETS_KEY


class EnteredClone(NamedTuple):
    """The stack of a clone. Call `keep`, if any, once the stack has started, before an agent runs in it."""

    project: Project
    keep: Callable[[], None] | None = None


class OpenClone(Struct, frozen=True, kw_only=True):
    """A clone with its stack, its volume, and the repository that it was made from."""

    clone: Clone
    project: Project
    volume: CloneVolume
    repository: HostRepository


def open_clone(clone: Clone) -> OpenClone:
    """Open a clone for reading; raise UserError if its project no longer exists."""
    if not clone.project.is_dir():
        what = "the project that it was made from no longer exists"
        raise UserError([Problem(where=clone.name, what=what, hint=f"restore {clone.project}")])
    project = open_project(clone.root, cwd=clone.root)
    return OpenClone(clone=clone, project=project, volume=volume_of(project), repository=open_repository(clone.project))


def volume_of(project: Project) -> CloneVolume:
    """Return the volume of a clone's stack."""
    return CloneVolume(driver=driver(), project=project, image=agent_images(project)[-1].name)


def chosen_clones(name: str, path: Path | None) -> tuple[Clone, ...]:
    """Return the clone with this name, or all clones of the project; raise UserError if there is none.

    A clone can also be named as `ls` prints its stack, from any directory; and `path` can name one.
    """
    if clone := _clone_of_stack(name, path):
        return (clone,)
    root = find_project(path, cwd=Path.cwd()).root
    if not name and (clone := clone_at(root, os.environ)):
        return (clone,)
    clones = clones_of(root, os.environ)
    found = tuple(one for one in clones if one.name == name or not name)
    if not found:
        what = f"this project has no clone named {name}" if name else "this project has no clone"
        known = f"there is {listed([one.name for one in clones])}" if clones else "agent-sandbox run --clone makes one"
        raise UserError([Problem(where=str(root), what=what, hint=known)])
    return found


def _clone_of_stack(name: str, path: Path | None) -> Clone | None:
    root = named_root(Path(name), open_store(os.environ), cwd=Path.cwd()) if name and path is None else None
    return clone_at(root, os.environ) if root else None


def planned_clone(project: Project, name: str, *, removes: bool) -> Project | None:
    """Print which clone a run would use; return its stack, None if there is none yet.

    Raise UserError if the run `removes` the clone afterwards, and `claim_clone` would refuse the name.
    """
    clone = _clone_for(project, name)
    if name and removes:
        if clone_at(clone.root, os.environ) or clone.root.exists():
            raise UserError([_exists_already(clone)])
        _require_nothing_fetched(project, name)
    say(f"would use the clone {clone.name}" if clone.started else f"would make the clone {clone.name}")
    return open_project(clone.root, cwd=clone.root) if clone.started else None


def claim_clone(project: Project, name: str) -> Clone:
    """Record a new clone of the project and return it; raise UserError if one with this name exists.

    Without a name, it gets the next free one.
    """
    taken: set[str] = set()
    while True:
        clone = _clone_for(project, name, taken)
        if name and not clone_at(clone.root, os.environ):
            _require_nothing_fetched(project, name)
        if _make_directory(clone):
            save_clone(clone)
            return clone
        if name:
            raise UserError([_exists_already(clone)])
        taken.add(clone.name)


def _exists_already(clone: Clone) -> Problem:
    what = f"the clone {clone.name} exists already, and --rm would remove it"
    return Problem(where="--name", what=what, hint="leave out --rm, or use another name")


def _require_nothing_fetched(project: Project, name: str) -> None:
    """Raise UserError if the project has branches of an earlier clone with this name: the new one's replace them."""
    if name in fetched_clones(open_repository(project.root)):
        what = f"the project has branches of an earlier clone {name}, and the new clone's would replace them"
        hint = f"use another name, or remove them: git branch --delete --remotes box/{name}/BRANCH"
        raise UserError([Problem(where="--name", what=what, hint=hint)])


def _make_directory(clone: Clone) -> bool:
    """Return whether the directory of a new clone was made: not if another command has just made it."""
    try:
        clone.root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if clone_at(clone.root, os.environ):
            return False  # a clone whose directory was lost may have a volume
        clone.root.mkdir()
    except FileExistsError:
        return False
    except OSError as error:
        raise UserError([problem_of(str(clone.root), error)]) from error
    return True


def _clone_for(project: Project, name: str, taken: Collection[str] = ()) -> Clone:
    """Return the clone with this name, which may not exist yet; "" is a new one with the next free name."""
    if name:
        require_name(name)
        if found := clone_named(project.root, name, os.environ):
            return found
    title = project.name.rpartition("-")[0]
    # Branches of a clone that is gone stay as they are: a new one with its name would replace them.
    fetched = () if name else fetched_clones(open_repository(project.root)).union(taken)
    return new_clone(project.root, name, os.environ, title=title, fetched=fetched)


def enter_clone(project: Project, name: str, *, extra_ca: Path | None, quiet: bool) -> EnteredClone:
    """Make the clone of a trusted project unless it exists, bring its settings up to date, and return its stack."""
    clone = _clone_for(project, name)
    with one_at_a_time(clone):
        now = clone_named(project.root, clone.name, os.environ)
        if now and not name:
            what, hint = "another command has just made this clone", "run the command again"
            raise UserError([Problem(where=clone.name, what=what, hint=hint)])
        clone = now or clone  # another command may have filled it
        repository = open_repository(clone.project)
        start = None if clone.started else start_of(repository, clone.project)
        save_clone(clone)
        before, (clone, own) = clone.policy, _settle(project, clone)
        if before not in ("", clone.policy) and not quiet:
            _report_old_policy(own, clone)
        if start is None:
            return EnteredClone(project=own)
        record_first_review(clone.project)  # for `review`, after the clone's commits were merged
        execute(backend().build(build_of(images_of(own), extra_ca=extra_ca)), quiet=quiet)
        execute(backend().plan(own, Create()), quiet=quiet)
        key, image = cache_key(own, repository, start), volume_of(own).image
        with ThreadPoolExecutor() as pool:  # each starts a container
            secrets = pool.submit(_copy_secrets, project, own)
            cache = pool.submit(bring_cache, own, clone, image, key)
            clone = _fill(own, clone, repository, start)
            secrets.result()
            has_cache = cache.result()
        save_clone(clone)
        if not quiet:
            _report(repository, clone, start)
    if has_cache or not key:
        return EnteredClone(project=own)
    return EnteredClone(project=own, keep=partial(keep_cache, own, clone, image, key))


def _settle(project: Project, clone: Clone) -> tuple[Clone, Project]:
    """Write the settings that the user trusts in the project into the clone's directory, and trust them there.

    A policy that was changed in the clone stays.
    """
    store = open_store(os.environ)
    trusted = store.load(project.root)
    if trusted is None:
        raise UserError([Problem(where=str(project.root), what="not trusted yet", hint="agent-sandbox trust")])
    clone = bring_policy(clone, trusted)
    texts = _settings(trusted)
    write_all(clone.root, texts, shared=texts.keys())
    options = InitOptions(
        agents=project.agents,
        path=clone.root,
        on_conflict=OnConflict.REPLACE,
        services=False,
        dotenv=False,
        settings=project.settings,
    )
    prepare(options, os.environ).write()
    store.save(read_settings(clone.root, os.environ))
    for recipe in recipes_of(project.root, os.environ).load():
        recipes_of(clone.root, os.environ).add(recipe)
    return clone, open_project(clone.root, cwd=clone.root)


def _report_old_policy(own: Project, clone: Clone) -> None:
    """Print what loads a changed policy, if the clone's proxy runs with the one from before."""
    if is_running(own, "proxy"):
        command = f"agent-sandbox proxy reload{path_option(clone.root, os.environ, cwd=Path.cwd())}"
        say(("note:", "title"), f" the policy changed since {clone.name} was started; to apply it: {command}")


def _settings(trusted: Standing) -> dict[str, str]:
    """Return the texts of the project file and of what it names, and of the choices of `init`, without the policy."""
    run = {path: trusted.files[path] for path in (*trusted.run, PROJECT_FILE, SHARED) if path in trusted.files}
    return {path: text for path, text in {**trusted.box, **run}.items() if path not in trusted.policy}


def _copy_secrets(parent: Project, own: Project) -> None:
    """Copy the stored secrets of the clone's project; others come from a source."""
    volume = f"{parent.name}_{SECRETS_KEY}"
    if volume in driver().leftovers(parent.name)["volumes"]:
        target = Store(volume=f"{own.name}_{SECRETS_KEY}", at="/to", writes=True)
        helper = Helper(project=own, image=proxy_name(), stores=(Store(volume=volume, at="/from"), target))
        copying = driver().spawn(helper, "cp", "--archive", "/from/.", "/to/", user=PROXY_USER)
        run_helper(copying, doing="copying the secrets")


def _fill(own: Project, clone: Clone, repository: HostRepository, start: Start) -> Clone:
    """Fill the clone's volume, and return its record with the commits that it starts with."""
    branch = start.branch or clone.name
    volume_of(own).fill(repository, start, branch, {})
    started = {name: commit for name, commit in start.references.items() if name.startswith(HEADS)}
    return replace(clone, started={**started, f"{HEADS}{branch}": start.commit})


def _report(repository: HostRepository, clone: Clone, start: Start) -> None:
    made = f" of {short_path(clone.project)}: branch {start.branch or clone.name} at {start.commit[:10]}"
    say("clone ", (clone.name, "title"), made)
    for note in _notes(repository, clone):
        say(("note:", "title"), f" {note}")


def _notes(repository: HostRepository, clone: Clone) -> Iterator[str]:
    if left := uncommitted_in(clone.project, repository.kind):
        yield f"not in the clone, because it is not committed: {listed(left)}"
    if os.path.exists(clone.project / ".gitmodules"):
        yield "submodules are empty in the clone: inside, `git submodule update --init` fetches what the policy allows"
    if os.path.exists(repository.git / "lfs"):
        yield "Git LFS files are pointers in the clone: inside, `git lfs pull` fetches what the policy allows"


def report_unfetched(clone: Clone) -> None:
    """Print what would be lost with a clone: unfetched commits and uncommitted files."""
    if not clone.started:
        return  # it was never filled
    try:
        with one_at_a_time(clone):
            found = open_clone(clone)
            status = read_status(found.volume, clone, found.repository)
    except UserError as error:
        for problem in error.problems:
            say(("warning:", "warn"), f" cannot list what was not fetched: {problem}")
        return
    listing, waiting = status.listing, [one for one in status.branches if not one.is_fetched]
    for kind, is_stash in (("commits of", False), ("the stashes", True)):
        if names := [one.name for one in waiting if one.stash == is_stash]:
            say(
                ("not fetched:", "warn"),
                f" {kind} {listed(names)}: agent-sandbox fetch {name_in(clone, cwd=Path.cwd())}",
            )
    for branch, why in listing.refused.items():
        say(("not fetched:", "warn"), f" {branch}: {why}")
    for line in uncommitted(listing.changed, (), complete=listing.complete):
        say(line)


def uncommitted(changed: Sequence[str], ignored: Sequence[str], *, complete: bool) -> Iterator[str]:
    """Yield a line about each kind of uncommitted file in a clone; none of them is fetched."""
    if changed:
        yield f"not committed: {counted(len(changed), 'file')}: {listed(changed)}"
    if ignored:
        yield f"ignored by git: {listed(ignored)}"
    if not complete:
        yield "there may be more uncommitted files: the list is incomplete"
