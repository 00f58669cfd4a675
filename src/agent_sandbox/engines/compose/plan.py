"""Plan for Docker Compose, with the same files that plain `docker compose` and editors use."""

from collections.abc import Iterator
from pathlib import Path
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.engines.plan import BuildImage, Plan, RemoveImages, RunCommand
from agent_sandbox.engines.verbs import (
    Build,
    Cache,
    Create,
    Destroy,
    Down,
    Drop,
    Pull,
    Restart,
    Resume,
    Stop,
    Up,
    Verb,
)
from agent_sandbox.images import BASE_IMAGE, DIGEST_LABEL, Image
from agent_sandbox.project.project import Project

DIRECTORY = ".devcontainer"
# The label that compose sets on everything of a project.
PROJECT_LABEL = "com.docker.compose.project"
# The first step of `docker compose up`: create containers, and recreate those that differ from their service or image.
# Only Compose can tell: its hash labels do not equal those of `config --hash`, because it replaces `network_mode`.
CREATE = ("create", "--no-build", "--remove-orphans")
STOP_SECONDS = 2
START_SECONDS = 120  # seconds; a cold start takes 5, but a slow machine needs time to report what it lacks
# The requested base image: another one needs a new build, none does not.
BASE_LABEL = "agent-sandbox.base"
# A setting in the user's shell could select the legacy builder, which has no secrets.
BUILD_ENVIRONMENT = {"DOCKER_BUILDKIT": "1"}


class ComposePlanner(Struct, frozen=True, kw_only=True):
    """The planner for one program with the arguments of `docker`."""

    program: str = "docker"

    def plan(self, project: Project, verb: Verb) -> Plan:
        """Return the steps that execute `verb` on the project's stack."""
        steps: Plan
        match verb:
            case Build():
                steps = self.build(verb)
            case Up():
                remove = ("rm", "--stop", "--force")
                removed = (self._compose(project, f"removing {name}", *remove, name) for name in verb.anew)
                # The old containers use their images until the stack has restarted.
                steps = (*self._images(verb.build), *removed, self._up(project, verb), self._replaced)
            case Create():
                steps = (self._compose(project, "creating the stack", *CREATE),)
            case Down():
                steps = (self._compose(project, "stopping the stack", "down", "--remove-orphans"),)
            case Destroy():
                down = self._compose(project, "removing the stack", "down", "--remove-orphans", "--volumes")
                steps = (down, self._left_volumes(project), *self.drop(Drop(images=verb.images)))
            case Restart():
                again = ("up", "--detach", "--no-build", "--no-deps", "--no-recreate", *_wait(), verb.service)
                steps = (
                    self._compose(project, f"restarting {verb.service}", "restart", verb.service),
                    self._compose(project, f"waiting for {verb.service}", *again),
                )
            case Pull():
                name = f"{repository_of(verb.image)}@{verb.digest}"
                commands = (("pull", "--quiet", name), ("tag", name, verb.image))
                steps = tuple(self._run(project, f"pulling {verb.image}", *words) for words in commands)
            case Resume():
                steps = (self._run(project, "unpausing the stack", "unpause", *verb.containers),)
            case Stop():
                words = ("stop", "--time", str(STOP_SECONDS), verb.container)
                steps = (self._run(project, f"stopping the {verb.service}", *words),)
            case _:
                assert_never(verb)
        return steps

    def build(self, verb: Build) -> Plan:
        """Return the steps that build images; they need no project."""
        return (*self._images(verb), self._replaced)

    def drop(self, verb: Drop) -> Plan:
        """Return the steps that remove images; they need no project."""
        return tuple(RemoveImages(argv=(self.program, "image", "rm", name), once_built=False) for name in verb.images)

    def _images(self, verb: Build) -> Iterator[BuildImage]:
        return (
            BuildImage(
                name=image.name,
                target=image.target,
                labels=_labels(image, verb),
                freshness=verb.freshness,
                argv=(*self._build_argv(image, verb), "-"),
                environment=BUILD_ENVIRONMENT,
                context=image.context,
            )
            for image in verb.images
        )

    def _build_argv(self, image: Image, verb: Build) -> Iterator[str]:
        yield from (self.program, "build", "--progress", "plain", "--load")
        yield from ("--tag", image.name, *(("--target", image.target) if image.target else ()))
        for key, value in _labels(image, verb).items():
            yield from ("--label", f"{key}={value}")
        for key, value in sorted(image.arguments.items()):
            yield from ("--build-arg", f"{key}={value}")
        if verb.base_image and image.follows_base:
            yield from ("--build-arg", f"{BASE_IMAGE}={verb.base_image}")
        for key in image.registries:
            if key in verb.registries:
                yield from ("--build-arg", f"{key}={verb.registries[key]}")
        if verb.extra_ca:
            yield from ("--secret", f"id=extra_ca,{_csv_field(f'src={verb.extra_ca}')}")
        if verb.cache is Cache.IGNORE:
            yield "--no-cache"

    def _up(self, project: Project, verb: Up) -> RunCommand:
        which = (*_wait(), *verb.only) if verb.only else ("--remove-orphans", *_wait())
        step = self._compose(project, "starting the stack", "up", "--detach", "--no-build", *which)
        return replace(step, unless_ready=(*self.compose_argv(project), *CREATE)) if verb.ready else step

    def _left_volumes(self, project: Project) -> RunCommand:
        """Return the step that removes volumes that no file names any more, such as a former agent's."""
        label = f"label={PROJECT_LABEL}={project.name}"
        # `--all`, because they have names.
        words = ("volume", "prune", "--all", "--force", "--filter", label)
        return self._run(project, "removing what is left", *words)

    def _run(self, project: Project, purpose: str, *words: str) -> RunCommand:
        return RunCommand(argv=(self.program, *words), cwd=project.root, project=project.name, purpose=purpose)

    def _compose(self, project: Project, purpose: str, *words: str) -> RunCommand:
        return self._run(project, purpose, *self.compose_argv(project)[1:], *words)

    def compose_argv(self, project: Project) -> tuple[str, ...]:
        """Return the `docker compose` command for the project, independent of the user's shell settings.

        The files may be trusted copies elsewhere; their paths stay relative to the originals. Variables come only from
        the shell, so a project's `.env` cannot change what a file means.
        """
        files = tuple(word for file in project.files for word in ("--file", _relative(file, project.root)))
        settled = ("--project-directory", DIRECTORY, "--env-file", "/dev/null")
        return (self.program, "compose", "--project-name", project.name, *settled, *files)

    @property
    def _replaced(self) -> RemoveImages:
        """The step that removes what a build replaced: only untagged images that no container uses."""
        argv = (self.program, "image", "prune", "--force", "--filter", f"label={DIGEST_LABEL}")
        return RemoveImages(argv=argv, once_built=True)


def _labels(image: Image, verb: Build) -> dict[str, str]:
    # Also if it is "", so that an image on another base is outdated.
    base = {BASE_LABEL: verb.base_image} if image.follows_base else {}
    return {DIGEST_LABEL: image.digest, **base}


def _csv_field(text: str) -> str:
    quoted = text.replace('"', '""')
    return f'"{quoted}"' if set(text) & set(',"\n') else text


def _wait() -> tuple[str, ...]:
    return ("--wait", "--wait-timeout", str(START_SECONDS))


def _relative(file: Path, root: Path) -> str:
    return str(file.relative_to(root)) if file.is_relative_to(root) else str(file)


def repository_of(image: str) -> str:
    """Return the name of an image without its tag and digest.

    >>> repository_of("localhost:5000/db:1"), repository_of("db@sha256:0"), repository_of("localhost:5000/db")
    ('localhost:5000/db', 'db', 'localhost:5000/db')
    """
    name = image.partition("@")[0]
    start = name.rfind("/") + 1
    return name[:start] + name[start:].partition(":")[0]
