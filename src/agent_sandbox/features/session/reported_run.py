"""`run --json`: run the agent without a terminal, then print a summary of the run."""

import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from msgspec import to_builtins

from agent_sandbox.cli.terminal.output import emit_json, say, say_problems
from agent_sandbox.engines.place import Role
from agent_sandbox.engines.session import run_session
from agent_sandbox.features.clones.fetched import Fetched
from agent_sandbox.features.proxy.control import ask_proxy, read_traffic
from agent_sandbox.features.review.changes import Baseline, find_changes, load_baseline, take
from agent_sandbox.features.session.run_summary import Output, Summary, Traffic, as_json, as_markdown
from agent_sandbox.features.stack.execute import driver
from agent_sandbox.features.traffic.record import read_record
from agent_sandbox.features.traffic.wanted import Wanted, since_time
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project import Project

# The file that GitHub shows with a step.
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


class ReportedRun:
    """One run of `run --json`. If it ends before its summary is printed, print its problems as JSON."""

    def __init__(self) -> None:
        self._printed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if not self._printed:
            emit_json({"exit_code": None, "problems": to_builtins(_problems(error))})

    def run(
        self,
        project: Project,
        agent: str,
        *command: str,
        before: Baseline | None,
        fetch: Callable[[], Fetched | None] | None = None,
    ) -> int:
        """Run the agent's command, print the summary as JSON, and return the agent's exit code.

        `before` has the project's files before a sandbox started that is only for this run: the summary is about all
        that happened in it. Without it, it is about the requests from now on, and about what was not reviewed yet.
        `fetch`, if any, fetches the commits of the clone that the agent worked in.
        """
        since, output = "" if before else _clock(project), Output()
        baseline = before or load_baseline(project.root, os.environ) or take(project.root)
        started = time.monotonic()
        code = run_session(driver(), Role(project=project, service="agent"), *command, on_output=output.add)
        seconds, traffic = time.monotonic() - started, _traffic(project, since)  # `fetch` stops the proxy
        summary = Summary(
            project=project.name,
            agent=agent,
            exit_code=code,
            seconds=seconds,
            output=output,
            traffic=traffic,
            review=find_changes(project.root, baseline),
            clone=fetch() if fetch else None,
        )
        emit_json(as_json(summary))
        self._printed = True
        if file := os.environ.get(STEP_SUMMARY):
            _append(Path(file), as_markdown(summary))
        return code


def _problems(error: BaseException | None) -> Sequence[Problem]:
    match error:
        case UserError(problems=problems):
            return problems
        case None:
            return (Problem(where="", what="the sandbox did not start: see what was printed above"),)
        case KeyboardInterrupt():
            return (Problem(where="", what="interrupted"),)
        case _:
            return (Problem(where="", what=f"{type(error).__name__}: {error}"),)


def _clock(project: Project) -> str:
    """Return the proxy's own time: its clock may differ from this machine's."""
    clock = ask_proxy(driver(), project, "status").get("clock")
    return since_time(str(clock), now=datetime.now(UTC)) if clock else ""


def _traffic(project: Project, since: str) -> Traffic | None:
    """Return the requests since then; if the proxy does not answer, report that and return None."""
    traffic, wanted = Traffic(), Wanted(since=since)

    def take(line: str) -> None:
        record = read_record(line)
        if record is not None and wanted.takes(record):
            traffic.add(record)

    try:
        read_traffic(driver(), Role(project=project, service="proxy"), on_line=take)
    except UserError as error:
        say_problems(error.problems)
        return None
    return traffic


def _append(file: Path, text: str) -> None:
    try:
        with file.open("a", encoding="utf-8", errors="replace") as summary:
            summary.write(text)
    except OSError as error:
        say(f"note: {STEP_SUMMARY}={file} cannot be written: {(error.strerror or str(error)).lower()}")
