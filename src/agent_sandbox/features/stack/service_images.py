"""Pull the images of services beside the sandbox: ask about large ones, and refuse one that changed."""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent_sandbox.bounded_json import read_json
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.cli.terminal.question import agrees
from agent_sandbox.engines.verbs import Pull
from agent_sandbox.features.stack.execute import backend, driver, execute
from agent_sandbox.host.files import write_private
from agent_sandbox.host.user_dirs import state_file
from agent_sandbox.images import OURS
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import read_facts
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.paths import PROJECT_FILE
from agent_sandbox.projectfile.paths import is_pinned
from agent_sandbox.size_text import size_text

# A larger download is asked about.
LARGE = 1_000_000_000
FOLDER = "images"  # of digests, in the state directory: out of the reach of the agent
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def prepare_images(project: Project, *, quiet: bool) -> None:
    """Pull images by the digest that they had before, and ask about large ones; raise UserError if one changed.

    The engine pulls the others when the stack starts.
    """
    images = _images(project)
    if not images:
        return
    before = recorded_digests(project.root, os.environ)
    here = driver().images(images)
    if changed := [*_changed(images, here, before)]:
        raise UserError(changed)
    for image, services in images.items():
        if image in here:
            continue
        pulled = f"{image}@{before[image]}" if image in before else image
        _ask_about(image, services, driver().download_size(pulled), quiet=quiet)
        if image in before:
            execute(backend().plan(project, Pull(image=image, digest=before[image])), quiet=quiet)


def record_images(project: Project) -> None:
    """Record the digests of the images that the stack runs now."""
    images = _images(project)
    if not images:
        return
    before = recorded_digests(project.root, os.environ)
    now = {image: min(digests) for image, digests in driver().images(images).items() if digests}
    record_digests(project.root, os.environ, {**now, **{image: before[image] for image in now if image in before}})


def _images(project: Project) -> dict[str, list[str]]:
    """Return the images that are not pinned, each with its services."""
    found: dict[str, list[str]] = {}
    for name, one in read_facts(project.root).beside.items():
        if one.image and not one.image.startswith(OURS) and not is_pinned(one.image):
            found.setdefault(one.image, []).append(name)
    return found


def _changed(
    images: Mapping[str, Sequence[str]], here: Mapping[str, frozenset[str]], before: Mapping[str, str]
) -> Iterator[Problem]:
    for image, services in images.items():
        if image not in here or before.get(image, "") in {"", *here[image]}:
            continue
        what = f"{image} is not the image that ran before: its digest was {before[image]}"
        hint = "remove the image, and `agent-sandbox up` pulls the one from before"
        if here[image]:
            hint = f"to accept it, write `image: {image}@{min(here[image])}` in {PROJECT_FILE}; otherwise {hint}"
        yield Problem(where=", ".join(services), what=what, hint=hint)


def _ask_about(image: str, services: Sequence[str], size: int | None, *, quiet: bool) -> None:
    """Report a download; raise UserError if it is large and the user declines."""
    download = f"{image}, {size_text(size)}" if size is not None else f"{image}, of unknown size"
    if (size or 0) > LARGE and sys.stdin.isatty() and not agrees(f"Pull {download}?"):
        raise UserError([Problem(where=", ".join(services), what=f"{image} was not pulled, so nothing was started")])
    if not quiet:
        say(f"pulling {download}, for {', '.join(services)}")


def recorded_digests(root: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the recorded digest of each image."""
    try:
        said = read_json(_file(root, environ).read_text("utf-8"))
        return {image: digest for image, digest in said["digests"].items() if DIGEST.fullmatch(digest)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def record_digests(root: Path, environ: Mapping[str, str], digests: Mapping[str, str]) -> None:
    """Record the digests, if they differ from the recorded ones."""
    if digests != recorded_digests(root, environ):
        file = _file(root, environ)
        write_private(file.parent, {file.name: json.dumps({"digests": dict(digests)})})


def _file(root: Path, environ: Mapping[str, str]) -> Path:
    return state_file(FOLDER, root.resolve(), environ)
