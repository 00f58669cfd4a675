"""Add one rule to the policy file, for `policy allow` and `policy deny`."""

import os
import shlex
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sandbox.cli.terminal.output import diff_lines, emit_lines, say
from agent_sandbox.features.policy.file import named_policy
from agent_sandbox.features.policy.layers import is_layer
from agent_sandbox.features.policy.resolve_services import agent_image, resolve_these
from agent_sandbox.features.policy.rule_edit import (
    named_service,
    planned_edits,
    planned_options,
    planned_service,
    planned_values,
)
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.explain.advice import APPLY
from agent_sandbox.policyfile.parse.aliases import service_meant
from agent_sandbox.policyfile.resolved import ONLY_PROJECT, RESOLVED, resolved_for
from agent_sandbox.policytools.edit.editing import AlreadyCovered, Edited, Values
from agent_sandbox.policytools.edit.flow_style import flow
from agent_sandbox.policytools.edit.insertion import written
from agent_sandbox.policytools.edit.route_template import as_pattern
from agent_sandbox.policytools.edit.short_rule import ShortRule, read_short_rule, rules_of_push
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import open_project

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent_sandbox.features.policy.registries import Machine

DONE = {Effect.ALLOW: "allowed", Effect.DENY: "denied"}


def add_rule(  # noqa: PLR0913 - the command's options
    effect: Effect,
    rule: str,
    url: str | None,
    *,
    policy: Path | None,
    path: Path | None,
    dry_run: bool,
    no_reload: bool,
) -> None:
    """Add the rule to the policy file and print where, or print the diff; then reload the project's policy."""
    file = named_policy(policy, path=path)
    if effect is Effect.ALLOW and url is None and (service := service_meant(rule)):
        added = put_service(service, file, dry_run=dry_run)
    else:
        wanted = read_short_rule(effect, (rule, *([] if url is None else [url])))
        added = put(wanted, file, dry_run=dry_run)
    if not (dry_run or no_reload or policy):
        from agent_sandbox.features.proxy.reload_policy import reload_if_running  # noqa: PLC0415 - only then: 40 modules

        if not reload_if_running(path) and added:
            say(f"no sandbox runs: the next agent-sandbox up{_option(path)} loads it")
    elif added:
        say(how_to_apply(path))


def how_to_apply(path: Path | None) -> str:
    """Return the line that says how to load an edited policy; `path` is the option of the command that edited it."""
    return f"{APPLY}{_option(path)}"


def _option(path: Path | None) -> str:
    return f" --path {shlex.quote(str(path))}" if path else ""


def put(wanted: ShortRule, file: Path, *, dry_run: bool = False) -> bool:
    """Add the rule to the file, or print the diff; return whether the file changed.

    For one request of a `git push`, the rule for the other is added, too.
    """
    rules = rules_of_push(wanted)
    afters: tuple[Edited | AlreadyCovered, ...] = ()

    def plan() -> tuple[str, Edited | None]:
        nonlocal afters
        before, afters = planned_edits(file, rules, os.environ)
        return before, next((after for after in reversed(afters) if not isinstance(after, AlreadyCovered)), None)

    before, last = plan() if dry_run else ("", _write(file, plan))
    if dry_run and last is not None:
        emit_lines(diff_lines(difference(file, before, last.text)))
        return False
    for rule, after in zip(rules, afters, strict=True):
        if isinstance(after, AlreadyCovered):
            emit_lines([f"{rule.text} is already {DONE[rule.effect]}, by {after.rule.origin}: {after.rule}"])
            continue
        emit_lines([f"{file}:{after.line}: added `- {written(rule.text)}` under `{rule.section}`"])
        if (pattern := as_pattern(rule.text)) != rule.text:
            command = f"agent-sandbox policy {rule.effect} {shlex.quote(pattern)}"
            say(("careful:", "warn"), " it matches only this text; for any value there: ", (command, "command"))
        for deny in after.beaten_by:
            say(f"part of it is still denied, by {deny.origin}: {deny}")
        for asking in after.asked_by:
            say(f"a person is still asked about part of it, by {asking.origin}: {asking}")
    return last is not None


def put_service(name: str, file: Path, *, dry_run: bool = False) -> bool:
    """Add the service to the file, or print the diff; return whether anything changed.

    A service whose registries come from this machine's configuration is resolved, also if the file names it already.
    """
    if name in RESOLVED and is_layer(file, os.environ):
        what = f"only a project's policy can name {name}"
        raise UserError([Problem(where=str(file), what=what, hint=ONLY_PROJECT)])

    plan = partial(planned_service, file, name, os.environ)
    before, after = plan() if dry_run else ("", _write(file, plan))
    if after is None:
        emit_lines([f"{named_service(file, name)}: `{name}` is already under `services`"])
    elif dry_run:
        emit_lines(diff_lines(difference(file, before, after.text)))
        return False
    else:
        emit_lines([f"{file}:{after.line}: added `- {name}` under `services`"])
    if resolved_for(name) and not dry_run:
        resolve_added(name, file)
        return True
    return after is not None


def resolve_added(name: str, file: Path) -> None:
    """Resolve a service that the file names, if it is one whose registries come from this machine's configuration."""
    if resolved := resolved_for(name):
        for line in resolve_these(file, [resolved], image=lambda: _image_of(file)):
            say(line)


def _image_of(file: Path) -> "Machine | None":
    """Return the image of the project with this policy; None without a stack, an engine or an image."""
    try:
        return agent_image(open_project(file.absolute().parent.parent, cwd=Path.cwd()))
    except UserError:
        return None


def put_options(service: str, options: "Mapping[str, object]", file: Path) -> bool:
    """Give the service in the file these options and print where; return whether the file changed."""
    after = _write(file, lambda: planned_options(file, service, options, os.environ))
    if after is None:
        return False
    values = [f"`{option}: {flow(value)}`" if len(options) == 1 else f"`{option}`" for option, value in options.items()]
    emit_lines(
        [f"{file}:{after.line}: the service {service} has {'' if len(options) == 1 else 'new '}{', '.join(values)}"]
    )
    return True


def put_values(values: Values, what: str, file: Path) -> bool:
    """Add settings and entries to the file and print where; return whether the file changed."""
    after = _write(file, lambda: planned_values(file, values, os.environ))
    if after is None:
        return False
    emit_lines([f"{file}:{after.line}: added {what}"])
    return True


def _write(file: Path, plan: "Callable[[], tuple[str, Edited | None]]") -> Edited | None:
    from agent_sandbox.features.trust.trusted_edit import write_trusted  # noqa: PLC0415 - 30 modules; `watch` edits rarely

    return write_trusted(file, plan, os.environ)


def difference(file: Path, before: str, after: str) -> str:
    """Return the unified diff of two texts, ignoring line endings."""
    lines = unified_diff(before.splitlines(), after.splitlines(), f"a/{file}", f"b/{file}", lineterm="")
    return "\n".join(lines)
