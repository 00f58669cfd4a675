"""`agent-sandbox policy check [FILE]`."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import to_builtins

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import Json, PolicyArgument, PolicyOption, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, excerpt, say, say_problems
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.counted import counted
from agent_sandbox.features.policy.file import layer_lines, named_policy
from agent_sandbox.features.policy.layers import layers_here, load_here, unresolved_here
from agent_sandbox.policy import Effect, Policy
from agent_sandbox.policy.match.host_pattern import Reach
from agent_sandbox.policyfile.layer_file import PROJECT
from agent_sandbox.policyfile.resolved import advice_for
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.reading import read_policy
from agent_sandbox.problems import Problem, UserError

if TYPE_CHECKING:
    from agent_sandbox.policytools.lint.table import Found


def check(
    file: PolicyArgument = None, *, policy: PolicyOption = None, path: ProjectPath = None, json: Json = False
) -> int:
    """Report every problem in a policy file with its line, and warn of entries that do not mean what they seem to."""
    where = named_policy(file, policy, path=path)
    try:
        loaded = load_here(where, os.environ)
    except UserError as error:
        if not json:
            say_problems(error.problems, beside=_excerpts(where))
            return FIXABLE
        emit_json({"file": str(where), "valid": False, "problems": to_builtins(error.problems)})
        return FIXABLE
    warnings = _misread(where) if _may_be_misread(loaded) else ()
    rules, layers = len(loaded.rules.rules), layers_here(os.environ, beside=where)
    if json:
        used = [{"name": layer.name, "file": str(layer.path)} for layer in layers]
        answer = {"file": str(where), "valid": True, "problems": [], "digest": loaded.digest, "rules": rules}
        emit_json({**answer, "layers": used, "warnings": [one.as_json() for one in warnings]})
    else:
        valid = styled(f"{where}: ", ("valid", "ok"), f", {counted(rules, 'rule')}, digest {loaded.digest[:12]}")
        emit_lines((valid, *layer_lines(loaded, layers)))
        if loaded.refusal:
            emit_lines([styled(("everything is denied:", "deny"), f" {loaded.refusal}")])
        for name in unresolved_here(where, os.environ):
            say(("note:", "warn"), f" {name} is not resolved here yet, so it allows nothing: {advice_for(name)}")
        for one in warnings:
            say(("warning:", "warn"), f" {where}:{one.finding.line}: {one.finding.what}")
            say(("  hint:", "title"), f" {one.finding.fix}")
    return DONE


def _misread(where: Path) -> "Sequence[Found]":
    from agent_sandbox.features.policy.commands.lint import subject_at  # noqa: PLC0415 - brings pydantic, which few policies need
    from agent_sandbox.policytools.lint.table import MISREAD, lint  # noqa: PLC0415 - as above

    return lint(subject_at(where), MISREAD)


def _may_be_misread(policy: Policy) -> bool:
    """Return whether a rule of the file itself denies, or has more than an exact host.

    Services are checked when they are written; a list of hosts cannot be misread, and may be long.
    """
    own = (rule for rule in policy.rules.rules if rule.origin.layer == PROJECT)
    return any(
        rule.effect is Effect.DENY or asked.query or asked.path or asked.host.reach is not Reach.EXACT
        for rule in own
        for asked in (rule.conditions,)
    )


def _excerpts(file: Path) -> Callable[[Problem], str]:
    """Return a function that shows a problem's line if it is in this file and the file is readable."""
    try:
        lines = decode_policy(read_policy(file), file=str(file)).splitlines()
    except UserError:
        return lambda _: ""
    return lambda problem: excerpt(problem, lines) if problem.where.startswith(f"{file}:") else ""
