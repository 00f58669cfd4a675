"""The Docker Compose backend, with the same files that plain `docker compose` and editors use."""

from collections.abc import Iterator
from pathlib import Path
from typing import assert_never

from agent_sandbox.backends.plan import BuildImage, HandOver, Plan, RemoveImages, RunCommand
from agent_sandbox.backends.project import PROJECT_LABEL, Project
from agent_sandbox.backends.verbs import (
    AskProxy,
    AskSecrets,
    Build,
    Cache,
    Destroy,
    Down,
    Exec,
    Follow,
    Logs,
    ReadTraffic,
    Restart,
    Terminal,
    Up,
    Verb,
)
from agent_sandbox.images import DIGEST_LABEL, Image
from agent_sandbox.stack.services.proxy import CONTROL, LOG, PROGRAM, SECRETS

DIRECTORY = ".devcontainer"
START_SECONDS = 120  # seconds; a cold start takes 5, but a slow machine needs time to report what it lacks
# The requested base image: another one needs a new build, none does not.
BASE_LABEL = "agent-sandbox.base"
# A setting in the user's shell could select the legacy builder, which has no secrets.
BUILD_ENVIRONMENT = {"DOCKER_BUILDKIT": "1"}
# Only untagged images that no container uses.
REPLACED = RemoveImages(
    argv=("docker", "image", "prune", "--force", "--filter", f"label={DIGEST_LABEL}"), once_built=True
)


def plan(project: Project, verb: Verb) -> Plan:
    """Return the steps that execute `verb` on the project's stack."""
    steps: Plan
    match verb:
        case Build():
            steps = build(verb)
        case Up():
            removed = (_run(project, f"removing {name}", "rm", "--stop", "--force", name) for name in verb.anew)
            # The old containers use their images until the stack has restarted.
            steps = (*_images(verb.build), *removed, _up(project), REPLACED)
        case Down():
            steps = (_run(project, "stopping the stack", "down", "--remove-orphans"),)
        case Destroy():
            images = (RemoveImages(argv=("docker", "image", "rm", name), once_built=False) for name in verb.images)
            down = _run(project, "removing the stack", "down", "--remove-orphans", "--volumes")
            steps = (down, _left_volumes(project), *images)
        case Restart():
            again = ("up", "--detach", "--no-build", "--no-deps", "--no-recreate", *_wait(), verb.service)
            steps = (
                _run(project, f"restarting {verb.service}", "restart", verb.service),
                _run(project, f"waiting for {verb.service}", *again),
            )
        case Exec():
            steps = (_hand_over(project, "exec", *_tty(verb.terminal), "agent", *verb.argv),)
        case Logs():
            steps = (_run(project, "reading the logs", *_logs(verb)),)
        case AskProxy() | AskSecrets() | ReadTraffic():
            steps = (_in_proxy(project, verb),)
        case _:
            assert_never(verb)
    return steps


def build(verb: Build) -> Plan:
    """Return the steps that build images; they need no project."""
    return (*_images(verb), REPLACED)


def _images(verb: Build) -> Iterator[BuildImage]:
    return (
        BuildImage(
            name=image.name,
            target=image.target,
            labels=_labels(image, verb),
            freshness=verb.freshness,
            argv=(*_build_argv(image, verb), "-"),
            environment=BUILD_ENVIRONMENT,
            context=image.context,
        )
        for image in verb.images
    )


def _build_argv(image: Image, verb: Build) -> Iterator[str]:
    yield from ("docker", "build", "--progress", "plain", "--load", "--tag", image.name, "--target", image.target)
    for key, value in _labels(image, verb).items():
        yield from ("--label", f"{key}={value}")
    for key, value in sorted(image.arguments.items()):
        yield from ("--build-arg", f"{key}={value}")
    if verb.base_image:
        yield from ("--build-arg", f"BASE_IMAGE={verb.base_image}")
    if verb.extra_ca:
        yield from ("--secret", f"id=extra_ca,{_csv_field(f'src={verb.extra_ca}')}")
    if verb.cache is Cache.IGNORE:
        yield "--no-cache"


def _labels(image: Image, verb: Build) -> dict[str, str]:
    base = {BASE_LABEL: verb.base_image} if verb.base_image else {}
    return {DIGEST_LABEL: image.digest, **base}


def _csv_field(text: str) -> str:
    quoted = text.replace('"', '""')
    return f'"{quoted}"' if set(text) & set(',"\n') else text


def _up(project: Project) -> RunCommand:
    return _run(project, "starting the stack", "up", "--detach", "--no-build", "--remove-orphans", *_wait())


def _wait() -> tuple[str, ...]:
    return ("--wait", "--wait-timeout", str(START_SECONDS))


def _tty(terminal: Terminal) -> tuple[str, ...]:
    return ("-T",) if terminal is Terminal.NONE else ()


def _logs(verb: Logs) -> Iterator[str]:
    yield from ("logs", "--no-color")
    if verb.follow is Follow.WAIT:
        yield "--follow"
    if verb.tail is not None:
        yield from ("--tail", str(verb.tail))
    yield from verb.services


def _in_proxy(project: Project, verb: AskProxy | AskSecrets | ReadTraffic) -> RunCommand:
    argv: tuple[str, ...]
    match verb:
        case AskProxy():
            purpose, argv = "asking the proxy", (*verb.argv, "--control", CONTROL)
        case AskSecrets():
            purpose, argv = "asking the proxy", ("secret", *verb.argv, "--folder", SECRETS)
        case ReadTraffic():
            purpose, argv = "reading the traffic log", ("log", "--file", LOG, *verb.argv)
        case _:
            assert_never(verb)
    return _run(project, purpose, "exec", "-T", "proxy", *PROGRAM, *argv)


def _left_volumes(project: Project) -> RunCommand:
    """Return the step that removes volumes that no file names any more, such as a former agent's."""
    label = f"label={PROJECT_LABEL}={project.name}"
    argv = ("docker", "volume", "prune", "--all", "--force", "--filter", label)
    return RunCommand(argv=argv, cwd=project.root, project=project.name, purpose="removing what is left")


def _run(project: Project, purpose: str, *arguments: str) -> RunCommand:
    return RunCommand(
        argv=(*compose_argv(project), *arguments), cwd=project.root, project=project.name, purpose=purpose
    )


def _hand_over(project: Project, *arguments: str) -> HandOver:
    return HandOver(argv=(*compose_argv(project), *arguments), cwd=project.root)


def compose_argv(project: Project) -> tuple[str, ...]:
    """Return the `docker compose` command for the project, independent of the user's shell settings.

    The files may be trusted copies elsewhere; their paths stay relative to the originals. Variables come only from the
    shell, so a project's `.env` cannot change what a file means.
    """
    files = tuple(word for file in project.files for word in ("--file", _relative(file, project.root)))
    settled = ("--project-directory", DIRECTORY, "--env-file", "/dev/null")
    return ("docker", "compose", "--project-name", project.name, *settled, *files)


def _relative(file: Path, root: Path) -> str:
    return str(file.relative_to(root)) if file.is_relative_to(root) else str(file)
