"""Explain why a stack did not start: the first service that failed, with its last output."""

from collections.abc import Callable, Iterable, Sequence

from agent_sandbox.backends.plan import RunCommand
from agent_sandbox.backends.project import Project
from agent_sandbox.problems import Problem
from agent_sandbox.runtime.compose.containers import Container, containers
from agent_sandbox.runtime.compose.engine import ask
from agent_sandbox.runtime.compose.faults import FAULTS, problem_of
from agent_sandbox.runtime.proxy.decisions import read_line

LINES = 15


def why_not_up(project: Project) -> Callable[[RunCommand, str], Iterable[Problem]]:
    """Return a function that explains a failed start of the project."""

    def explain(step: RunCommand, said: str) -> Iterable[Problem]:
        if any(fault.pattern.search(said) for fault in FAULTS):
            return [problem_of(said, doing=step.purpose)]
        failed = first_failed(containers(project.name))
        return [_problem(failed, last_words(failed))] if failed else [problem_of(said, doing=step.purpose)]

    return explain


def first_failed(found: Sequence[Container]) -> Container | None:
    """Return the first service that is not ready; it is the cause, because each waits for the one before it."""
    return next((container for container in found if not container.ready and not _waiting(container)), None)


def _waiting(container: Container) -> bool:
    return container.state == "created" and not container.error


def last_words(container: Container) -> str:
    """Return the last lines that a container printed, without audit records."""
    done = ask("logs", "--tail", str(LINES), container.id)
    lines = (done.out + done.err).strip().splitlines()
    return "\n".join(line for line in lines if read_line(line) is None)


def _problem(container: Container, words: str) -> Problem:
    reasons = [text for text in (container.error, container.last_check, words) if text]
    told = "\n  ".join(line for text in reasons for line in text.splitlines()) or "it printed nothing"
    hint = f"agent-sandbox logs {container.service} shows the whole output"
    return Problem(where=container.service, what=f"{container.condition}:\n  {told}", hint=hint)
