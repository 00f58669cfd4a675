"""`agent-sandbox up`."""

from collections.abc import Sequence
from pathlib import Path

from agent_sandbox.backends.project import Project
from agent_sandbox.backends.verbs import Restart, Up
from agent_sandbox.cli.carry_out import backend, carry_out
from agent_sandbox.cli.errors import DONE, INTERRUPTED
from agent_sandbox.cli.gate import open_trusted, open_unasked
from agent_sandbox.cli.options import DryRun, ProjectPath, Yes
from agent_sandbox.cli.output import say
from agent_sandbox.cli.policy_file import require_policy
from agent_sandbox.cli.typer_options import BaseImage, ExtraCa, Quiet
from agent_sandbox.runtime.building import build_of
from agent_sandbox.runtime.containers import Container, containers
from agent_sandbox.runtime.diagnose import why_not_up
from agent_sandbox.runtime.installed import images_of
from agent_sandbox.runtime.walls import REPLACED, lost_walls


def up(  # noqa: PLR0913 - each is an option
    *,
    path: ProjectPath = None,
    base_image: BaseImage = "",
    extra_ca: ExtraCa = None,
    yes: Yes = "",
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> int:
    """Start the stack and wait until it is healthy; images that are missing or outdated are built first.

    `docker compose up -d` does the same but for the building.
    """
    project = open_unasked(path, cwd=Path.cwd()) if dry_run else open_trusted(path, cwd=Path.cwd(), yes=yes)
    require_policy(project)  # the proxy would refuse everything: better said here, with every line
    build = build_of(images_of(project), base_image=base_image, extra_ca=extra_ca)
    try:
        found = () if dry_run else containers(project.name)
        if found:
            _restart_unhealthy_proxy(project, found, quiet=quiet)
        plan = backend().plan(project, Up(build=build, anew=_open_services(found)))
        carry_out(plan, dry_run=dry_run, quiet=quiet, explain=why_not_up(project))
    except KeyboardInterrupt:
        say("interrupted: run `agent-sandbox up` again, or `agent-sandbox down` to stop what had started")
        return INTERRUPTED
    if not (dry_run or quiet):
        say(f"{project.name} is up: agent-sandbox shell opens a shell in it")
    return DONE


def _restart_unhealthy_proxy(project: Project, found: Sequence[Container], *, quiet: bool) -> None:
    # It was started with a policy that has been mended since: compose would leave it as it is, and give up on it.
    if any(one.service == "proxy" and one.condition == "unhealthy" for one in found):
        restart = backend().plan(project, Restart(service="proxy"))
        carry_out(restart, quiet=quiet, explain=why_not_up(project))


def _open_services(found: Sequence[Container]) -> tuple[str, ...]:
    # Mounts end when the host replaces what is mounted; compose sees no reason to mount it again.
    lost = lost_walls(found)
    for path in lost:
        say(f"{path}: {REPLACED}; look at it")
    return ("agent",) if lost else ()
