"""Start a trusted stack, for `up` and `run`."""

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agent_sandbox.cli.framework.errors import DONE, INTERRUPTED
from agent_sandbox.cli.terminal.output import emit_lines, say
from agent_sandbox.cli.terminal.question import agrees
from agent_sandbox.engines.container import Container
from agent_sandbox.engines.events import Tell, Unneeded, ignore
from agent_sandbox.engines.place import Role
from agent_sandbox.engines.plan import BuildImage, Plan, RunCommand
from agent_sandbox.engines.verbs import Build, Resume, Up
from agent_sandbox.features.policy.file import require_policy
from agent_sandbox.features.policy.layers import load_here
from agent_sandbox.features.policy.missing_services import denied_servers
from agent_sandbox.features.policy.registries import this_machine
from agent_sandbox.features.policy.resolve_services import agent_image, resolve_named
from agent_sandbox.features.policy.stale_services import stale_services
from agent_sandbox.features.protect.accept_harmless import accept_harmless, report_hidden_by_start
from agent_sandbox.features.protect.mount_checks import listed, look_inside
from agent_sandbox.features.protect.snapshot import record, settings_replaced
from agent_sandbox.features.protect.unprotected_writes import review
from agent_sandbox.features.review.unreviewed import record_first_review
from agent_sandbox.features.secrets.sources.all_recipes import may_have_recipes
from agent_sandbox.features.stack.cut_off import cut_off
from agent_sandbox.features.stack.diagnose import first_failed, why_not_up
from agent_sandbox.features.stack.execute import backend, driver, execute
from agent_sandbox.features.stack.init.build_inputs import build_of
from agent_sandbox.features.stack.service_images import prepare_images, record_images
from agent_sandbox.features.stack.update_stack import updated
from agent_sandbox.host.agents import load_agents
from agent_sandbox.host.command import Command
from agent_sandbox.host.settings import folder_of, user_settings, write_settings
from agent_sandbox.host.user_dirs import config_directory
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project import owners
from agent_sandbox.project.clone_record import path_option
from agent_sandbox.project.installed import images_of, read_facts
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.paths import STACK
from agent_sandbox.stack.containers import ENTER, FIREWALL, SETUP, is_beside

FOLDER = str(Path(STACK).parent)
POLL_SECONDS = 0.5
MADE_TOGETHER = {"proxy": ("proxy",), "firewall": ("agent", "firewall")}

BUILD_ONLY = (
    "note: builds trust {}, but requests do not: to trust it in both, copy it to {}, and name it in policy.yaml there: "
    "`settings: {{upstream: {{ca: {}}}}}`"
)
EDITORS = "an editor started the agent container: recreating it; reload the editor's window afterwards"

RECREATE = "An editor started the agent container. Recreate it? The editor's window then has to be reloaded."
KEPT = "the editor's agent container keeps running, without changes of settings and images since its start"
ENDS = "recreating the agent container, which ends what runs in it: {0}"
END = "What runs in the agent container ends if it is recreated: {0}. Recreate it?"
WORKS_ON = "the agent container keeps running, without changes of settings and images since its start"
AGAIN = "agent-sandbox up{0} tries again; the stack runs, so you can look around with agent-sandbox shell{0}"
OURS, ERROR = "agent-sandbox: ", "error: "
MOST_LINES = 10


def start(
    project: Project,
    *,
    extra_ca: Path | None = None,
    dry_run: bool = False,
    quiet: bool = False,
    tell: Tell = ignore,
) -> int:
    """Build what is missing or outdated, start the stack and wait until it is healthy; return the exit code.

    If only a service beside the sandbox fails, UserError is raised, but the sandbox runs. `tell` receives the events,
    among them `Unneeded` if the stack was already up.
    """
    if not dry_run:
        project = updated(project, quiet=quiet)
    require_policy(project)  # with an invalid policy the proxy denies everything: report the problems here
    build = build_of(images_of(project), extra_ca=extra_ca)
    if not dry_run:
        refresh_settings(project)
    try:
        if not dry_run:
            _resolve(project, build, quiet=quiet)
        found = () if dry_run else _found(project, quiet=quiet)
        anew = dict.fromkeys((*_open_services(project, found), *_unhealthy(found), *cut_off(found)))
        ready = bool(found) and not anew and all(one.ready for one in found)
        plan = backend().plan(project, Up(build=build, anew=tuple(anew), ready=ready))
        if not dry_run and (volumes := read_facts(project.root).volumes):
            driver().host().require_disk_limit(volumes)
        if dry_run:
            execute(plan, dry_run=True)
            emit_lines(map(str, setup_command(project)))
            return DONE
        if extra_ca and not (ready or quiet):
            _say_if_build_only(project, extra_ca)
        prepare_images(project, quiet=quiet)
        record_first_review(project.root)  # first: an agent may work even in a stack that starts only in part
        if _is_left_to_editor(found, ready=ready) or (ready and not _may_end_work(project, found, plan, quiet, tell)):
            _fetch_secrets(project)
            tell(Unneeded(name=project.name))
            return DONE
        failure = _bring_up(project, plan, quiet=quiet, tell=tell)
        record_images(project)
        record(project.root, os.environ)
        _fetch_secrets(project)
        if failure:
            raise failure
        run_setup(project, quiet=quiet)
    except KeyboardInterrupt:
        option = path_option(project.root, os.environ, cwd=Path.cwd())
        again, stop = f"agent-sandbox up{option}", f"agent-sandbox down{option}"
        say(f"interrupted: run `{again}` again, or `{stop}` to stop what was started")
        return INTERRUPTED
    return DONE


def _is_left_to_editor(found: Sequence[Container], *, ready: bool) -> bool:
    """If an editor started the agent container, say or ask what becomes of it; return whether it is left as it is."""
    if not any(one.by_editor and one.ready for one in found):
        return False
    keeps = ready and sys.stdin.isatty() and not agrees(RECREATE)
    say(KEPT if keeps else EDITORS)
    return keeps


def _may_end_work(project: Project, found: Sequence[Container], plan: Plan, quiet: bool, tell: Tell) -> bool:  # noqa: FBT001 - as `start` has them
    """Say or ask what becomes of the programs that the start ends, if any; return whether it may."""
    images = tuple(step for step in plan if isinstance(step, BuildImage))

    def build() -> None:
        execute(images, quiet=quiet, tell=tell)

    agents = (one for one in found if one.service == "agent" and not one.by_editor)
    ending = [name for one in agents for name in driver().would_end(project, one, build=build)]
    if not ending:
        return True
    goes_on = not sys.stdin.isatty() or agrees(END.format(listed(ending)))
    say(ENDS.format(listed(ending)) if goes_on else WORKS_ON)
    return goes_on


def _bring_up(project: Project, plan: Plan, *, quiet: bool, tell: Tell) -> UserError | None:
    """Execute the plan; if only a service beside the sandbox fails, start the sandbox without it, and return why."""
    starting = [step for step in plan if isinstance(step, RunCommand)][-1]
    why, failed_steps = why_not_up(driver(), project), list[RunCommand]()

    def explain(step: RunCommand, said: str) -> Iterable[Problem]:
        failed_steps.append(step)
        return why(step, said)

    try:
        execute(plan, quiet=quiet, explain=explain, tell=tell)
    except UserError as error:
        if failed_steps != [starting]:  # after a failed build or removal, the old images or containers would start
            raise
        failed = first_failed(driver().observe(project.name))
        if failed is None or not is_beside(failed.service):
            raise
        try:  # if another service waits for the failed one, the engine has started nothing more
            execute(backend().plan(project, Up(build=Build(images=()), only=("agent",))), quiet=True)
        except UserError:
            raise error from None
        return error
    return None


def _say_if_build_only(project: Project, extra_ca: Path) -> None:
    upstream, folder = load_here(project.policy, os.environ).settings.upstream, config_directory(os.environ)
    if folder and not (upstream and upstream.ca):
        say(BUILD_ONLY.format(extra_ca, folder, extra_ca.name))


def refresh_settings(project: Project) -> None:
    """Copy the user's own settings of the agents again, if the stack has copies."""
    if project.settings:
        taken = user_settings(load_agents(project.agents), os.environ)
        write_settings(folder_of(project.name, os.environ), taken.files)


def build_images(project: Project, *, extra_ca: Path | None = None, quiet: bool = False) -> None:
    """Build what is missing or outdated."""
    build = build_of(images_of(updated(project, quiet=quiet)), extra_ca=extra_ca)
    execute(backend().build(build), quiet=quiet)


def _resolve(project: Project, build: Build, *, quiet: bool) -> None:
    machine = this_machine(os.environ, project=project.root)
    stale = stale_services(project.policy, machine)  # first: files that are resolved below are current
    resolved = resolve_named(project.policy, image=lambda: agent_image(project, build=build, quiet=quiet))
    denied = denied_servers(project, lambda: load_here(project.policy, os.environ))
    for note in (*stale, *resolved, *denied):
        say(f"note: {note}")


def _fetch_secrets(project: Project) -> None:
    if may_have_recipes(project.root, os.environ):
        from agent_sandbox.features.secrets.secret_sources import sync_after_start  # noqa: PLC0415 - few need it

        sync_after_start(project)


def report_unwritable_project(project: Project) -> None:
    """Print the doctor's result if the project belongs to root; `dev` is never root, unless the engine maps users."""
    from agent_sandbox.engines.protocol import Machine  # noqa: PLC0415 - as above
    from agent_sandbox.engines.result import Status  # noqa: PLC0415 - as above
    from agent_sandbox.features.doctor.table import results_of  # noqa: PLC0415 - few projects need any of it

    if owners.belongs_to_root(project.root) and not read_facts(project.root).in_volume:
        machine = Machine(path=project.root, cwd=project.root, driver=driver())
        owner = (row for row in machine.host.checks if row.name == "owner")
        for found in (result for row in owner for result in results_of(row, machine)):
            if found.status is Status.FAIL:
                say(found.what)
                say(("  hint:", "title"), f" {found.hint}")


def _open_services(project: Project, found: Sequence[Container]) -> tuple[str, ...]:
    # The engine does not notice a mount lost because its file was replaced, nor a network lost with the firewall.
    replaced = settings_replaced(project.root, os.environ)
    before = look_inside(driver(), found, project.root)
    if not before.lost and any(one.service == "agent" and one.state == "running" for one in found):
        report_hidden_by_start(project, replaced)
    inside = accept_harmless(project, found, before)
    lost = review(project, found, inside)
    if not (lost or inside.cut_off or inside.silent):
        # A check may have failed until all was protected again.
        _wait_for_check(project, driver().observe(project.name) if before.lost else found)
    if inside.cut_off:
        say(f"{inside.cut_off}: recreating both containers")
        return ("agent", "firewall")
    if FOLDER in lost:
        return ("agent", "proxy")  # which has the old one mounted
    return ("agent",) if lost else ()


def _wait_for_check(
    project: Project, found: Sequence[Container], *, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Wait for the health check that follows: the engine starts nothing while the agent container is unhealthy."""
    unhealthy = [one for one in found if one.service == "agent" and one.health == "unhealthy"]
    for one in unhealthy:
        say("waiting for the next health check of the agent container")
        for _ in range(int(one.check_seconds / POLL_SECONDS) + 1):
            sleep(POLL_SECONDS)
            if not any(now.id == one.id and now.health == "unhealthy" for now in driver().observe(project.name)):
                break


def _found(project: Project, *, quiet: bool) -> tuple[Container, ...]:
    return resumed(project, driver().observe(project.name), tell=(lambda _line: None) if quiet else say)


def resumed(
    project: Project,
    found: Sequence[Container],
    *,
    tell: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Container, ...]:
    """Unpause the containers, and return the project's once each was checked again.

    The engine calls a paused container `unhealthy` and, after `unpause`, keeps calling it that until the next check is
    due. Until then, it refuses to start anything that depends on it.
    """
    paused = [container for container in found if container.state == "paused"]
    if paused:
        tell(f"unpausing {_names(paused)}")
        plan = backend().plan(project, Resume(containers=tuple(container.id for container in paused)))
        driver().execute(plan)
        found = driver().observe(project.name)
    unchecked = [container for container in found if container.unchecked]
    if unchecked:
        tell(f"waiting for the next health check of {_names(unchecked)}, which was paused")
        # Count polls, not time: after a machine sleeps, the check still gets its chance.
        for _ in range(int(max(container.check_seconds for container in unchecked) / POLL_SECONDS) + 1):
            sleep(POLL_SECONDS)
            found = driver().observe(project.name)
            if not any(container.unchecked for container in found):
                break
    return tuple(found)


def _names(found: Sequence[Container]) -> str:
    return ", ".join(container.service for container in found)


def _unhealthy(found: Sequence[Container]) -> tuple[str, ...]:
    """Return the services to recreate because they are unhealthy: a start would keep them and give up.

    A recreated proxy may load a policy that was fixed since. The agent uses the firewall's network. `review` has
    already decided about an unhealthy agent.
    """
    failing = [one.service for one in found if one.condition == "unhealthy" and one.service != "agent"]
    return tuple(name for service in failing for name in _made_together(service))


def _made_together(service: str) -> tuple[str, ...]:
    """Return the services to recreate with one; a service beside the sandbox uses its own firewall's network."""
    return MADE_TOGETHER.get(service, tuple(dict.fromkeys((service.removeprefix(FIREWALL), service))))


def setup_command(project: Project) -> tuple[Command, ...]:
    """Return the command that runs the trusted script once in each container, or none."""
    text = project.made_of.get(project.setup)
    if text is None:
        return ()
    digest = hashlib.sha256(text.encode()).hexdigest()
    agent = Role(project=project, service="agent")
    return (driver().spawn(agent, ENTER, SETUP, project.setup, "--digest", digest, "--attended", stdin=True),)


def run_setup(project: Project, *, quiet: bool) -> None:
    """Run the script and show its output; raise UserError if it fails. The script ends when this process does."""
    for setup in setup_command(project):
        done = setup.watch(on_line=(lambda _line: None) if quiet else _show)
        if done.code:
            raise UserError([_problem(project, done.out.splitlines(), quiet=quiet)])


def _show(line: str) -> None:
    if not line.startswith(f"{OURS}{ERROR}"):
        say(line.removeprefix(OURS) if line.startswith(OURS) else f"  {line}")


def _problem(project: Project, lines: list[str], *, quiet: bool) -> Problem:
    """Return the last line of output as the problem, with `quiet` also the lines before it, which were not shown."""
    *before, why = [line for line in lines if line.strip()] or ["no output"]
    what = why.removeprefix(OURS).removeprefix(ERROR)
    said = "".join(f"\n  {line}" for line in before[-MOST_LINES:] if not line.startswith(OURS)) if quiet else ""
    what += ":" if said else ""
    option = path_option(project.root, os.environ, cwd=Path.cwd())
    return Problem(where=project.setup, what=what + said, hint=AGAIN.format(option))
