"""Query the engine through its command, `docker`.

Only the command knows the user's context, TLS keys and ssh hosts, and compose and buildx use it too. With one
client, the engine that is inspected is the one that is changed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_sandbox.bounded_json import read_json
from agent_sandbox.engines.compose.checks.version import Version
from agent_sandbox.engines.compose.faults import last_lines, problem_of
from agent_sandbox.engines.compose.remedies import Need, remedy
from agent_sandbox.host.process import Finished, capture
from agent_sandbox.problems import Problem, UserError

# One object per line: an image may have several names.
IMAGE_FORMAT = '{"tags": {{json .RepoTags}}, "labels": {{json .Config.Labels}}}'
MISSING = re.compile(r"no such image", re.IGNORECASE)


class Engine(Struct, frozen=True, kw_only=True):
    """An engine as its command reaches it."""

    program: str
    oldest: Version

    @contextmanager
    def required(self) -> Iterator[None]:
        """Turn a failure to start the command into a UserError."""
        try:
            yield
        except FileNotFoundError as error:
            if error.filename != self.program:
                raise
            what = f"the {self.program} command was not found"
            raise UserError([self._missing(self.program, what)]) from error
        except PermissionError as error:
            what = f"no permission to run the {self.program} command"
            raise UserError([self._missing(str(error.filename), what)]) from error

    def _missing(self, where: str, what: str) -> Problem:
        return Problem(where=where, what=what, hint=self.remedy(Need.COMMAND))

    def remedy(self, need: Need, said: str = "") -> str:
        """Return how to fix a missing part on this platform."""
        return remedy(need, said)

    def ask(self, *arguments: str, cwd: Path | None = None, timeout: float = 60.0) -> Finished:
        """Run the command with these arguments and return its output and exit code."""
        with self.required():
            return capture((self.program, *arguments), cwd=cwd, timeout=timeout)

    def answer(self, *arguments: str, doing: str, cwd: Path | None = None, timeout: float = 60.0) -> str:
        """Run the command and return its stdout; raise an explaining UserError on failure."""
        done = self.ask(*arguments, cwd=cwd, timeout=timeout)
        if done.code != 0:
            raise UserError([self.problem(done.err or done.out, doing=doing)])
        return done.out

    def problem(self, said: str, *, doing: str) -> Problem:
        """Return the problem that the command's output `said` means."""
        return problem_of(said, doing=doing, otherwise=partial(last_lines, program=self.program))

    def labels_of(self, images: Sequence[str]) -> dict[str, Mapping[str, str]]:
        """Return the labels of the images that exist on the engine."""
        found = self.ask("image", "inspect", "--format", IMAGE_FORMAT, *images)
        # Missing images are expected; any other error means that we do not know.
        complaints = [line for line in found.err.splitlines() if line.strip() and not MISSING.search(line)]
        if complaints:
            raise UserError([self.problem(found.err, doing="looking for the images")])
        labels = {tag: value["labels"] or {} for value in json_lines(found.out) for tag in value["tags"]}
        return {image: labels[image] for image in images if image in labels}


DOCKER = Engine(
    program="docker",
    # The first version with `start_interval` for health checks; without it, a stack takes minutes to start.
    oldest=(25, 0, 0),
)


def json_lines(text: str) -> Iterator[Mapping[str, Any]]:
    """Return the objects of `--format json`: one per line, or one list in older versions."""
    for line in text.splitlines():
        if line.strip():
            value = read_json(line)
            yield from value if isinstance(value, list) else [value]
