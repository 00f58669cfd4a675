"""`agent-sandbox policy suggest [FILE]`."""

import json
import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.cli.framework.options import Json, PolicyOption, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say, say_problems
from agent_sandbox.cli.terminal.question import choice
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.cli.terminal.tty import at_terminal
from agent_sandbox.counted import counted, times
from agent_sandbox.features.policy.edit import how_to_apply, put, put_service
from agent_sandbox.features.policy.file import named_policy
from agent_sandbox.features.policy.layers import load_here, offers_here
from agent_sandbox.features.proxy.decisions import local_time
from agent_sandbox.features.proxy.reload_policy import reload_stack, report
from agent_sandbox.features.proxy.traffic import STDIN, traffic_lines
from agent_sandbox.features.traffic.audit_log import read_log
from agent_sandbox.host.files import project_lock, write_all
from agent_sandbox.host.user_dirs import state_directory, state_file
from agent_sandbox.policy.explain.advice import SETUP
from agent_sandbox.policyfile.sources import is_source
from agent_sandbox.policytools.suggest.denials import Denials, Seen, read_denials
from agent_sandbox.policytools.suggest.generalising import IDS, WORDS
from agent_sandbox.policytools.suggest.suggesting import Proposal, Suggestions
from agent_sandbox.policytools.suggest.suggesting import suggest as suggest_rules
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import open_project

File = Annotated[Path | None, Argument(help="An audit log, `-` for standard input; by default the running stack's.")]
Choose = Annotated[bool, Option(help="Ask about each rule, and add those that you accept.")]
STARS = (
    f"`*` replaces a value after {IDS} different values with digits, in otherwise equal requests,"
    f" or {WORDS} of any kind in requests that only read"
)
MOST_SHOWN = 50
MOST_VALUES = 3
FOLDER = "declined"  # rules, in the user's state directory
MOST_DECLINED = 1_000


def suggest(
    file: File = None,
    *,
    choose: Choose = False,
    policy: PolicyOption = None,
    path: ProjectPath = None,
    json: Json = False,
) -> None:
    """Suggest the narrowest rules for denied requests. Nothing is applied: the log shows only what an agent wanted."""
    where = named_policy(policy, path=path)
    if choose:
        _require_terminal(file)
    denials = _denials(file, path)
    found = suggest_rules(denials, load_here(where, os.environ), offers_here(where, os.environ))
    if json:
        emit_json({"policy": str(where), **as_json(found)})
    elif choose:
        added = _choose(found, where)
        if added and file is None and policy is None:
            report(reload_stack(path))
        elif added:
            say(how_to_apply(path))
    else:
        emit_lines(as_text(found))
        if any(proposal.values for proposal in found.proposals):
            say(STARS)


def as_json(found: Suggestions) -> dict[str, Any]:
    """Return the suggestions as JSON."""
    return {
        "proposals": [
            {
                "line": proposal.rule.text,
                **_seen(proposal.seen),
                "stars": [list(values) for values in proposal.values],
                "warnings": list(proposal.warnings),
                "services": list(proposal.services),
                "git_command": proposal.git_command or None,
                "resolve": proposal.package_manager.service if proposal.package_manager else None,
            }
            for proposal in found.proposals
        ],
        "left_out": [{"why": why, **_seen(seen), "example": seen.example} for why, seen in found.left_out.items()],
        "unreadable_lines": found.unreadable,
    }


def as_text(found: Suggestions) -> list[str]:
    """Return the suggestions as text: commands to run, and what is left out."""
    lines = [line for proposal in found.proposals[:MOST_SHOWN] for line in _proposal(proposal)]
    if len(found.proposals) > MOST_SHOWN:
        lines += [f"and {len(found.proposals) - MOST_SHOWN} more, seen less often; --json lists all", ""]
    if not found.proposals:
        lines += ["nothing to suggest", ""]
    if found.left_out or found.unreadable:
        lines += [styled(("left out:", "title")), *_left_out(found)]
    return lines if lines[-1] else lines[:-1]


def _proposal(proposal: Proposal) -> Iterator[str]:
    rule = proposal.git_command or f"agent-sandbox policy allow {shlex.quote(proposal.rule.text)}"
    services = [f"`- {service}` under `services`, with everything else that it allows" for service in proposal.services]
    if proposal.package_manager:
        services = [f"for everything that {proposal.package_manager.tool} fetches: {proposal.package_manager.way}"]
    # One clone or installation needs many requests.
    first = proposal.package_manager is not None or any(map(is_source, proposal.services))
    title, *others = (*services, rule) if first else (rule, *services)
    yield styled((title, "command"))
    yield f"  {times(proposal.seen.count)}{_span(proposal.seen)}"
    for values in proposal.values:
        more = ", ..." if len(values) > MOST_VALUES else ""
        yield f"  `*` stands for {counted(len(values), 'value')}: {', '.join(values[:MOST_VALUES])}{more}"
    for warning in proposal.warnings:
        yield styled("  ", ("careful:", "warn"), f" {warning}")
    yield from (f"  or {other}" for other in others)
    yield ""


def _left_out(found: Suggestions) -> Iterator[str]:
    for why, seen in sorted(found.left_out.items(), key=lambda item: -item[1].count):
        yield f"  {times(seen.count)}, {why}: {seen.example}"
    if found.unreadable:
        lines = "line is not an audit record" if found.unreadable == 1 else "lines are not audit records"
        yield f"  {found.unreadable} {lines}"


def _span(seen: Seen) -> str:
    first, last = (local_time(time) for time in (seen.first, seen.last))
    if not first:
        return ""
    return f", {first}" if first == last else f", {first} to {last}"


def _seen(seen: Seen) -> dict[str, Any]:
    return {"count": seen.count, "first": seen.first or None, "last": seen.last or None}


def _denials(file: Path | None, path: Path | None) -> Denials:
    if file is not None:
        return read_denials(traffic_lines(file))
    project = open_project(path, cwd=Path.cwd())
    lines: list[str] = []
    read_log(project, lines.append, "--denied")
    return read_denials(lines)


def _require_terminal(file: Path | None) -> None:
    if file == STDIN or not at_terminal():
        what = "--choose needs a terminal to ask on"
        raise UserError([Problem(where="", what=what, hint="run it without --choose to print the suggestions")])


def _choose(found: Suggestions, file: Path) -> int:
    """Ask about each suggestion and return how many were added; no answer means no."""
    added, declined = 0, {*load_declined(file, os.environ)}
    proposals = [proposal for proposal in found.proposals if proposal.rule.text not in declined]
    if left := len(found.proposals) - len(proposals):
        say(f"{left} that you declined before left out; agent-sandbox policy suggest lists them")
    for number, proposal in enumerate(proposals, start=1):
        emit_lines([*_proposal(proposal)][:-1])
        if proposal.git_command.startswith(SETUP):
            say("run this command: a push to this server also needs a token")
            continue
        service = proposal.package_manager.service if proposal.package_manager else next(iter(proposal.services), "")
        keys = f"y/s/N/q; s adds the service {service}" if service else "y/N/q"
        answer = choice(f"add the rule? ({number} of {len(proposals)}) [{keys}]")
        if answer == "q":
            break
        if answer == "y" or (answer == "s" and service):
            added += _put(proposal, file, service=service if answer == "s" else "")
        else:
            declined.add(proposal.rule.text)
    save_declined(file, declined, os.environ)
    return added


def _put(proposal: Proposal, file: Path, *, service: str) -> bool:
    """Add the service or the rule, and return whether it was added; print why if it cannot be."""
    try:
        if not service:
            return put(proposal.rule, file)
        put_service(service, file)
    except UserError as error:
        say_problems(error.problems)
        return False
    return True


def load_declined(policy: Path, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the declined rules; a damaged record counts as none."""
    try:
        found = read_json(state_file(FOLDER, policy, environ).read_text("utf-8"))
    except (OSError, ValueError, NotJsonError):
        return frozenset()
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()


def save_declined(policy: Path, rules: Collection[str], environ: Mapping[str, str]) -> None:
    """Add these rules to the record."""
    place = state_file(FOLDER, policy, environ)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with project_lock(policy.absolute().parent.parent, state_directory(environ)):
        every = sorted({*rules, *load_declined(policy, environ)})
        write_all(place.parent, {place.name: json.dumps(every[:MOST_DECLINED])})
