"""`agent-sandbox policy learn start | stop`."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Struct
from typer import Argument, Option

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import DryRun, PolicyOption, ProjectPath
from agent_sandbox.cli.terminal.output import diff_lines, emit_lines, say, say_problems
from agent_sandbox.cli.terminal.question import choice
from agent_sandbox.cli.terminal.tty import at_terminal
from agent_sandbox.features.policy.edit import difference, resolve_added
from agent_sandbox.features.policy.file import POLICY_FILE, named_policy
from agent_sandbox.features.policy.layers import load_here, offers_here
from agent_sandbox.features.policy.learned_entries import Chosen, as_text, choose, left_out, replayed, without_warning
from agent_sandbox.features.policy.learning import Recording, forget_recording, load_recording, save_recording
from agent_sandbox.features.policy.rule_edit import Entries, planned_entries
from agent_sandbox.features.proxy.control import OTHER, ask_proxy
from agent_sandbox.features.proxy.decisions import local_time
from agent_sandbox.features.proxy.reload_policy import reload_stack, report
from agent_sandbox.features.proxy.traffic import STDIN, traffic_lines
from agent_sandbox.features.stack.execute import driver, require_made, require_running
from agent_sandbox.features.traffic.audit_log import LogFile, Since, read_log
from agent_sandbox.features.traffic.wanted import since_time, span
from agent_sandbox.features.trust.trusted_edit import write_trusted
from agent_sandbox.host.user_name import user_name
from agent_sandbox.policy.explain.advice import APPLY
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policytools.suggest.denials import read_traffic
from agent_sandbox.policytools.suggest.learning import Learned, replay
from agent_sandbox.policytools.suggest.learning import learn as learn_from
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project


class Do(StrEnum):
    """An action of `policy learn`."""

    START = "start"
    STOP = "stop"


What = Annotated[Do, Argument(help="`start` recording, or `stop` and choose what to write.")]
All = Annotated[bool, Option("--all", help="With stop: write all entries that carry no warning, without asking.")]
AllowFor = Annotated[
    str | None,
    Option(
        help="With start: for `30m`, or up to `8h`, allow what no rule denies, except private addresses.",
        metavar="TIME",
    ),
]
SHORTEST, LONGEST = timedelta(minutes=1), timedelta(hours=8)
ALLOWING = "recording; for {}, requests that no rule denies are allowed, but none to private addresses or with secrets"
NOT_STARTED = "agent-sandbox policy learn start, or --since to learn from the past"


def completions(*before: str) -> tuple[str, ...]:
    """Return the actions, for shell completion."""
    return () if before else tuple(Do)


class Source(Struct, frozen=True, kw_only=True):
    """The recorded requests, and the policy that they are for."""

    file: Path | None
    path: Path | None
    policy: Path
    since: str

    @property
    def is_stack(self) -> bool:
        """Whether they come from the running stack."""
        return self.file is None

    def root(self) -> Path:
        """Return the project's directory."""
        return open_project(self.path, cwd=Path.cwd()).root


def learn(  # noqa: PLR0913 - each is an option
    what: What,
    *,
    allow_for: AllowFor = None,
    every: All = False,
    since: Since = None,
    file: LogFile = None,
    policy: PolicyOption = None,
    path: ProjectPath = None,
    dry_run: DryRun = False,
) -> int:
    """Record what a task needs, then write the narrowest rules for it into the policy.

    `stop` reads the audit log since `start`, makes entries of what was denied without a matching rule, asks about each,
    shows the change and writes it with comments. Then it decides the recorded requests again.
    """
    if what is Do.START:
        return _start(open_project(path, cwd=Path.cwd()), allow_for)
    if not (every or dry_run) and (file == STDIN or not at_terminal()):
        problem, hint = "`learn stop` needs a terminal to ask on", "--dry-run shows the entries; --all writes them"
        raise UserError([Problem(where="", what=problem, hint=f"{hint}, except those with a warning")])
    if file is None and not dry_run:
        _stop_allowing(open_project(path, cwd=Path.cwd()))
    source = Source(file=file, path=path, policy=named_policy(policy, path=path), since=_since(since, file, path))
    learned = _learned(source)
    chosen = without_warning(learned) if every or dry_run else choose(learned, choice)
    emit_lines(as_text(learned) if every or dry_run else left_out(learned))
    code = _write(source, chosen, learned, dry_run=dry_run)
    if source.is_stack and not dry_run:
        forget_recording(source.root(), os.environ)
    return code


def _start(project: Project, allow_for: str | None) -> int:
    """Start recording, from the proxy's own time: its clock may differ from this machine's."""
    seconds = _seconds(allow_for) if allow_for else 0
    require_running(project, "proxy")
    clock = ask_proxy(driver(), project, "status").get("clock")
    if not isinstance(clock, str):
        raise UserError([OTHER])
    before = load_recording(project.root, os.environ)
    recording = Recording(since=since_time(clock, now=datetime.now(UTC)), allows=bool(seconds))
    save_recording(project.root, recording, os.environ)
    if seconds or (before and before.allows):
        _allow(project, seconds)
    if before:
        say(f"note: this replaces the recording since {local_time(before.since)}")
    say(ALLOWING.format(allow_for) if seconds else "recording; denied requests stay denied meanwhile")
    say("then: agent-sandbox policy learn stop")
    return DONE


def _seconds(text: str) -> int:
    """Return the length of a time such as `30m`."""
    found = span(text)
    if found is None or not SHORTEST <= found <= LONGEST:
        what = f"not a time from 1m to 8h: {safe_repr(text)}"
        raise UserError([Problem(where="--allow-for", what=what, hint="write `30m` or `2h`")])
    return int(found.total_seconds())


def _allow(project: Project, seconds: int) -> None:
    """Have the proxy allow what no rule denies for this many seconds; 0 ends that."""
    argv = ("learn", "--seconds", str(seconds), "--who", user_name())
    answer = ask_proxy(driver(), project, *argv)
    if answer.get("ok") is not True:
        raise UserError([OTHER])


def _stop_allowing(project: Project) -> None:
    """End `--allow-for` before the user chooses."""
    recording = load_recording(project.root, os.environ)
    if recording and recording.allows and require_made(project, "proxy").state == "running":
        _allow(project, 0)


def _since(since: str | None, file: Path | None, path: Path | None) -> str:
    if since is not None:
        return since_time(since, now=datetime.now(UTC))
    if file is not None:
        return ""
    root = open_project(path, cwd=Path.cwd()).root
    recording = load_recording(root, os.environ)
    if recording is None:
        raise UserError([Problem(where=str(root), what="nothing is being recorded", hint=NOT_STARTED)])
    return recording.since


def _learned(source: Source) -> Learned:
    if source.file is not None:
        traffic = read_traffic(traffic_lines(source.file), since=source.since)
    else:
        project = open_project(source.path, cwd=Path.cwd())
        lines: list[str] = []

        def keep(line: str) -> None:
            # A record begins with its time: the older ones, which may be many, are not kept.
            if line.partition('"time": "')[2] >= source.since:
                lines.append(line)

        read_log(project, keep)
        traffic = read_traffic(lines, since=source.since)
    return learn_from(traffic, load_here(source.policy, os.environ), offers_here(source.policy, os.environ))


def _write(source: Source, chosen: Chosen, learned: Learned, *, dry_run: bool) -> int:
    """Show the change, write it unless `dry_run`, and report the replay."""
    if not chosen:
        say("nothing was written")
        return DONE
    note = f"learned {local_time(source.since, shape='%Y-%m-%d %H:%M')}" if source.since else "learned from a log"
    entries = planned_entries(source.policy, chosen.services, chosen.rules, os.environ, note=note)
    say_problems(entries.problems)
    if entries.before != entries.after.text:
        emit_lines(diff_lines(difference(source.policy, entries.before, entries.after.text)))
        if not dry_run:
            _apply(source, entries, chosen.services)
    policy = entries.policy if dry_run else load_here(source.policy, os.environ)
    untried = [entry for entry in learned.entries if dry_run and entry.is_resolved and entry.service in chosen.services]
    requests = [request for entry in untried for proposal in entry.proposals for request in proposal.requests]
    emit_lines(replayed(replay(learned, policy, untried=requests), untried=untried))
    return FIXABLE if entries.problems else DONE


def _apply(source: Source, entries: Entries, services: Iterable[str]) -> None:
    write_trusted(source.policy, lambda: (entries.before, entries.after), os.environ)  # exactly what was shown
    for name in services:
        resolve_added(name, source.policy)
    if source.is_stack and source.policy.absolute() == source.root().absolute() / POLICY_FILE:
        report(reload_stack(source.path))
    else:
        say(APPLY)
