"""Reach a project's secret store, in its proxy or, before the first `up`, in a temporary container; and its clones'."""

import os
from collections.abc import Callable
from pathlib import Path

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.features.protect.mount_checks import listed
from agent_sandbox.features.proxy.control import tell_secrets
from agent_sandbox.features.proxy.secrets import Held, held_secrets
from agent_sandbox.features.secrets.login_sync import proxy_runs
from agent_sandbox.features.stack.execute import backend, driver, execute, require_running
from agent_sandbox.features.stack.init.build_inputs import build_of
from agent_sandbox.images import proxy_name
from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import clones_of
from agent_sandbox.project.installed import images_of, open_project
from agent_sandbox.project.project import Project


def ask_store(project: Project, *argv: str, stdin: Callable[[], bytes] = bytes) -> None:
    """Run a command on the secrets; `stdin` is called for the value once the store is ready."""
    runs = proxy_runs(project)
    if not runs and not project.files:
        require_running(project, "proxy")
    if not runs:
        _build_proxy(project)
    tell_secrets(driver(), project, *argv, runs=runs, stdin=stdin())


def secrets_of(project: Project) -> tuple[Held, ...]:
    """Return the secrets of the project, none if it has no store yet. A stopped proxy has no values from sources."""
    runs = proxy_runs(project)
    if not runs and not (project.files and _has_store(project)):
        return ()
    return held_secrets(driver(), project, runs=runs)


def _has_store(project: Project) -> bool:
    is_built = bool(driver().images((proxy_name(),)))
    return is_built and f"{project.name}_secrets" in driver().leftovers(project.name)["volumes"]


def _build_proxy(project: Project) -> None:
    """Build the proxy's image, if it is missing or outdated, with the CA that `up` takes from a variable."""
    extra_ca = os.environ.get("AGENT_SANDBOX_EXTRA_CA", "")
    images = tuple(image for image in images_of(project) if image.name == proxy_name())
    build = build_of(images, extra_ca=Path(extra_ca) if extra_ca else None)
    execute(backend().build(build))


def in_clones(project: Project, act: Callable[[Project], object], *, done: str) -> None:
    """Call `act` with the stack of each clone, and print `done` with their names; warn where it fails."""
    names = []
    for clone in clones_of(project.root, os.environ):
        if not clone.started:  # it has no volumes yet
            continue
        try:
            act(open_project(clone.root, cwd=clone.root))
            names.append(clone.name)
        except UserError as error:
            for problem in error.problems:
                say(("warning:", "warn"), f" {clone.name}: {problem}")
    if names:
        say(f"{done}: {listed(names)}")
