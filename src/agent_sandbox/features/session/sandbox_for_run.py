"""The sandbox that one `run` uses: the project's own, or a clone's, kept or removed afterwards."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from agent_sandbox.features.review.changes import Baseline, take
from agent_sandbox.features.stack.start_stack import build_images
from agent_sandbox.project.project import Project

if TYPE_CHECKING:
    from agent_sandbox.features.clones.fetched import Fetched
    from agent_sandbox.features.clones.throw_away_clone import ThrowAwayClone


class SandboxForRun(Struct, frozen=True, kw_only=True):
    """The stack to start for one run.

    `before` lists the project's files as they were before the sandbox existed, None if it is not only for this run.
    Call `keep_cache` once the stack has started.
    """

    project: Project
    before: Baseline | None = None
    cache: Callable[[], None] | None = None
    clone: "ThrowAwayClone | None" = None

    def keep_cache(self) -> None:
        """Copy what a clone's setup script downloaded, for other clones, before an agent runs."""
        if self.cache:
            self.cache()

    @property
    def fetch(self) -> "Callable[[], Fetched | None] | None":
        """A function that fetches the commits of a clone for this run, None for any other sandbox."""
        return self.clone.fetch if self.clone else None

    @property
    def fetch_failed(self) -> bool:
        """Whether commits of such a clone could not be fetched, known once the run has ended."""
        return self.clone is not None and self.clone.failed


@contextmanager
def sandbox_for_run(
    project: Project, clone: str | None, *, removes: bool, extra_ca: Path | None, quiet: bool
) -> Iterator[SandboxForRun]:
    """Yield the sandbox for a run, and remove it afterwards if asked to.

    `clone` names a clone of the project, "" is the next free name, and None is the project itself.
    """
    if clone is None and not removes:
        yield SandboxForRun(project=project)
        return
    if clone is None:
        from agent_sandbox.features.clones.throw_away_clone import thrown_away  # noqa: PLC0415 - only then

        build = partial(build_images, project, extra_ca=extra_ca, quiet=quiet)
        with thrown_away(project, build=build, quiet=quiet) as before:
            yield SandboxForRun(project=project, before=before)
        return
    from agent_sandbox.features.clones.clones import claim_clone, enter_clone  # noqa: PLC0415 - only for clones

    if not removes:
        own, cache = enter_clone(project, clone, extra_ca=extra_ca, quiet=quiet)
        yield SandboxForRun(project=own, cache=cache)
        return
    from agent_sandbox.features.clones.throw_away_clone import fetched_and_removed  # noqa: PLC0415 - as above

    with fetched_and_removed(claim_clone(project, clone), quiet=quiet) as thrown:
        # What it would keep for other clones would be removed with it.
        own, _ = enter_clone(project, thrown.clone.name, extra_ca=extra_ca, quiet=quiet)
        yield SandboxForRun(project=own, before=take(own.root), clone=thrown)
