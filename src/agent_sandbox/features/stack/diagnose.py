"""Explain why a stack did not start: the first service that failed, with its last output."""

import re
from collections.abc import Iterable, Sequence

from agent_sandbox.engines.container import Container
from agent_sandbox.engines.plan import RunCommand
from agent_sandbox.engines.protocol import Driver, Explain
from agent_sandbox.features.proxy.decisions import read_line
from agent_sandbox.problems import Problem
from agent_sandbox.project.project import Project
from agent_sandbox.stack.containers import is_beside

LINES = 15
# What has not failed yet; it may wait for another one.
STARTING = ("starting", "restarting")
# What programs say that want to run as root.
REFUSED = re.compile(r"operation not permitted|permission denied", re.IGNORECASE)
POWERLESS = "a service has no capabilities, not even as root: name the user it runs as with `user` under `beside: {}`"


def why_not_up(driver: Driver, project: Project) -> Explain:
    """Return a function that explains a failed start of the project."""

    def explain(step: RunCommand, said: str) -> Iterable[Problem]:
        return [driver.explain(said, doing=step.purpose, otherwise=failed_service)]

    def failed_service() -> Problem | None:
        failed = first_failed(driver.observe(project.name))
        return _problem(failed, last_words(driver, failed)) if failed else None

    return explain


def first_failed(found: Sequence[Container]) -> Container | None:
    """Return the first service that failed, else the first that is not ready: each waits for the one before it."""
    unready = [container for container in found if not container.ready and not _waiting(container)]
    failed = (container for container in unready if container.condition not in STARTING)
    return next(failed, next(iter(unready), None))


def _waiting(container: Container) -> bool:
    return container.state == "created" and not container.error


def last_words(driver: Driver, container: Container) -> str:
    """Return the last lines that a container printed, without audit records."""
    done = driver.logs(container, tail=LINES).capture()
    lines = (done.out + done.err).strip().splitlines()
    return "\n".join(line for line in lines if read_line(line) is None)


def _problem(container: Container, words: str) -> Problem:
    reasons = [text for text in (container.error, container.last_check, words) if text]
    output = "\n  ".join(line for text in reasons for line in text.splitlines()) or "it printed nothing"
    hint = f"agent-sandbox logs {container.service} shows the whole output"
    if is_beside(container.service) and REFUSED.search(words):
        hint = POWERLESS.format(container.service)
    return Problem(where=container.service, what=f"{container.condition}:\n  {output}", hint=hint)
