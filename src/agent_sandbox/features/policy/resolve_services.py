"""Resolve the services that a policy names from this machine's configuration, and say to what."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.features.policy.file import POLICY_FILE
from agent_sandbox.features.policy.registries import SECONDS, image_machine, this_machine
from agent_sandbox.features.stack.init.facts import homes
from agent_sandbox.host.files import project_lock, write_all
from agent_sandbox.host.git.worktree import Outside, repository_outside
from agent_sandbox.host.user_dirs import state_directory
from agent_sandbox.policyfile.named_services import without_file
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import agent_images

if TYPE_CHECKING:
    from agent_sandbox.engines.verbs import Build
    from agent_sandbox.features.policy.registries import Machine
    from agent_sandbox.features.policy.resolving import Resolved
    from agent_sandbox.project.project import Project


# Returns the project's image, which is asked about tools that this machine lacks, or None if it has not been built.
type Image = Callable[[], "Machine | None"]


def no_image() -> None:
    """Return None, for callers without an image."""


def resolve_named(policy: Path, *, image: Image = no_image) -> tuple[str, ...]:
    """Resolve the services that the policy names and that have no file yet; return what to print."""
    names = without_file(policy)
    return resolve_these(policy, names, image=image) if names else ()


def resolve_these(policy: Path, names: Sequence[str], *, image: Image = no_image) -> tuple[str, ...]:
    """Resolve these services; return one line for each registry, and for what the user may want to know."""
    from agent_sandbox.features.policy.self_resolving import find, together, without_answer  # noqa: PLC0415 - as above

    policy = policy.absolute()
    found = find(policy, names, this_machine(os.environ, project=policy.parent.parent))
    inside = image() if found.unknown else None
    if inside is not None:
        found = together(found, find(policy, found.unknown, inside))
    write_resolved(policy, found.plans)
    unknown = (without_answer(name, image=inside is not None) for name in found.unknown)
    return (*found.lines, *found.notes, *unknown)


def agent_image(project: "Project", *, build: "Build | None" = None, quiet: bool = False) -> "Machine | None":
    """Return the image of the project's agents; if it does not exist, build it with `build`, or return None."""
    from agent_sandbox.engines.place import Helper  # noqa: PLC0415 - as above
    from agent_sandbox.features.stack.execute import backend, driver, execute  # noqa: PLC0415 - as above

    name = agent_images(project)[-1].name
    if name not in driver().images((name,)):
        if build is None:
            return None
        execute(backend().build(build), quiet=quiet)

    def run(argv: Sequence[str]) -> str:
        finished = driver().spawn(Helper(project=project, image=name), *argv).capture(timeout=SECONDS)
        return finished.out if finished.code == 0 else ""

    return image_machine(run)


def write_resolved(policy: Path, plans: Sequence["Resolved"], *, trust: bool = True) -> None:
    """Write the files of resolved services and keep them out of git, because they describe this machine.

    They are trusted if the policy is, unless `trust` is False.
    """
    from agent_sandbox.features.policy.resolving import write  # noqa: PLC0415 - as above
    from agent_sandbox.features.trust.auto_trust import remembering  # noqa: PLC0415 - as above

    texts = {
        str(POLICY_FILE.parent / change.path): change.after
        for plan in plans
        for change in plan.changes
        if change.writes
    }
    if not texts:
        return
    with ExitStack() as stack:
        stack.enter_context(project_lock(policy.absolute().parent.parent, state_directory(os.environ)))
        if trust:
            stack.enter_context(remembering(policy, texts, os.environ))
        for plan in plans:
            write(policy, plan)
    _keep_out_of_git(policy.absolute().parent.parent, tuple(texts))


def _keep_out_of_git(project: Path, paths: Sequence[str]) -> None:
    from agent_sandbox.features.stack.init.git_exclude import exclude_file, excluding, not_ignored  # noqa: PLC0415 - as above

    git = repository_outside(project, homes(os.environ))
    file = exclude_file(project, git if isinstance(git, Outside) else None)
    try:
        if file and (new := not_ignored(project, paths, file)):
            write_all(project, excluding(project, new, file))
    except UserError as error:
        say(f"note: {error}")  # git shows the files, and nothing else differs
