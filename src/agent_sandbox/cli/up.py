"""`agent-sandbox up`."""

from pathlib import Path

from agent_sandbox.backends.project import Project
from agent_sandbox.backends.verbs import Restart, Up
from agent_sandbox.cli.carry_out import backend, carry_out
from agent_sandbox.cli.errors import DONE, INTERRUPTED
from agent_sandbox.cli.options import DryRun, Edited, ProjectPath
from agent_sandbox.cli.output import say
from agent_sandbox.cli.policy_file import require_policy
from agent_sandbox.cli.typer_options import BaseImage, ExtraCa, Quiet
from agent_sandbox.runtime.building import build_of
from agent_sandbox.runtime.containers import containers
from agent_sandbox.runtime.diagnose import why_not_up
from agent_sandbox.runtime.installed import images_of, open_to_run


def up(  # noqa: PLR0913 - each is an option
    *,
    path: ProjectPath = None,
    base_image: BaseImage = "",
    extra_ca: ExtraCa = None,
    edited: Edited = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> int:
    """Start the stack and wait until it is healthy; images that are missing or outdated are built first.

    `docker compose up -d` does the same but for the building.
    """
    project = open_to_run(path, cwd=Path.cwd(), edited=edited)
    require_policy(project)  # the proxy would refuse everything: better said here, with every line
    build = build_of(images_of(project), base_image=base_image, extra_ca=extra_ca)
    plan = backend().plan(project, Up(build=build))
    try:
        if not dry_run:
            _restart_unhealthy_proxy(project, quiet=quiet)
        carry_out(plan, dry_run=dry_run, quiet=quiet, explain=why_not_up(project))
    except KeyboardInterrupt:
        say("interrupted: run `agent-sandbox up` again, or `agent-sandbox down` to stop what had started")
        return INTERRUPTED
    if not (dry_run or quiet):
        say(f"{project.name} is up: agent-sandbox shell opens a shell in it")
    return DONE


def _restart_unhealthy_proxy(project: Project, *, quiet: bool) -> None:
    # It was started with a policy that has been mended since: compose would leave it as it is, and give up on it.
    if any(found.service == "proxy" and found.condition == "unhealthy" for found in containers(project.name)):
        restart = backend().plan(project, Restart(service="proxy"))
        carry_out(restart, quiet=quiet, explain=why_not_up(project))
