"""Query the Docker engine through the docker command.

Only the docker command knows the user's context, TLS keys and ssh hosts, and compose and buildx use it too. With one
client, the engine that is inspected is the one that is changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_sandbox.bounded_json import read_json
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.compose.faults import problem_of
from agent_sandbox.runtime.host.process import Finished, capture

PROGRAM = "docker"
NOT_FOUND = Problem(
    where="docker",
    what="the docker command was not found",
    hint="install Docker Engine (Linux), Docker Desktop or Colima (macOS), and make sure that `docker` is on PATH",
)
# One object per line: an image may have several names.
IMAGE_FORMAT = '{"tags": {{json .RepoTags}}, "labels": {{json .Config.Labels}}}'


@contextmanager
def needs_docker() -> Iterator[None]:
    """Turn a failure to start `docker` into a UserError."""
    try:
        yield
    except FileNotFoundError as error:
        if error.filename != PROGRAM:
            raise
        raise UserError([NOT_FOUND]) from error
    except PermissionError as error:
        what = "no permission to run the docker command"
        raise UserError([Problem(where=str(error.filename), what=what, hint=NOT_FOUND.hint)]) from error


def ask(*arguments: str, cwd: Path | None = None, timeout: float = 60.0) -> Finished:
    """Run `docker ARGUMENTS` and return its output and exit code."""
    with needs_docker():
        return capture((PROGRAM, *arguments), cwd=cwd, timeout=timeout)


def answer(*arguments: str, doing: str, cwd: Path | None = None, timeout: float = 60.0) -> str:
    """Run `docker ARGUMENTS` and return its stdout; raise an explaining UserError on failure."""
    done = ask(*arguments, cwd=cwd, timeout=timeout)
    if done.code != 0:
        raise UserError([problem_of(done.err or done.out, doing=doing)])
    return done.out


def json_lines(text: str) -> Iterator[Mapping[str, Any]]:
    """Return the objects of `--format json`: one per line, or one list in older versions."""
    for line in text.splitlines():
        if line.strip():
            value = read_json(line)
            yield from value if isinstance(value, list) else [value]


def labels_of(images: Sequence[str]) -> dict[str, Mapping[str, str]]:
    """Return the labels of the images that exist on the engine."""
    found = ask("image", "inspect", "--format", IMAGE_FORMAT, *images)
    # Missing images are expected; any other error means that we do not know.
    complaints = [line for line in found.err.splitlines() if line.strip() and "no such image" not in line.lower()]
    if complaints:
        raise UserError([problem_of(found.err, doing="looking for the images")])
    labels = {tag: value["labels"] or {} for value in json_lines(found.out) for tag in value["tags"]}
    return {image: labels[image] for image in images if image in labels}
