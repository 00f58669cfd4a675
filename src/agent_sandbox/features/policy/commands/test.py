"""`agent-sandbox policy test [FILE]`."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec.structs import replace
from typer import Option

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import Json, PolicyArgument, PolicyOption, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.features.policy.commands.explain import columns, why
from agent_sandbox.features.policy.file import named_policy
from agent_sandbox.features.policy.layers import load_here
from agent_sandbox.policyfile import LayerFile, load_layer, services_beside
from agent_sandbox.policyfile.layer_file import PROJECT
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.reading import read_policy
from agent_sandbox.policytools.explain.testing import Case, Outcome, cases_of, read_cases, run_cases

Cases = Annotated[Path | None, Option(help="A file with more cases: a list as under `tests`.")]
NONE = "write `tests: [{allow: GET https://example.com/}]` into the policy, or name a file with --cases"


def test(
    file: PolicyArgument = None,
    *,
    cases: Cases = None,
    policy: PolicyOption = None,
    path: ProjectPath = None,
    json: Json = False,
) -> int:
    """Run the policy's `tests`, and those of --cases. Exit 1 if a case fails."""
    where = named_policy(file, policy, path=path)
    outcomes = run_cases(load_here(where, os.environ), _cases(where, cases))
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if json:
        emit_json(
            {
                "policy": str(where),
                "passed": len(outcomes) - len(failed),
                "failed": len(failed),
                "cases": [as_json(outcome) for outcome in outcomes],
            }
        )
    else:
        emit_lines(as_text(where, outcomes, failed))
        if not outcomes:
            say(NONE)
    return FIXABLE if failed else DONE


def _cases(where: Path, more: Path | None) -> list[Case]:
    layer = load_layer(LayerFile(name=PROJECT, path=where), services=services_beside(where))
    own = [replace(case, origin=replace(case.origin, file=str(where))) for case in cases_of(layer)]
    return (
        own if more is None else [*own, *read_cases(decode_policy(read_policy(more), file=str(more)), file=str(more))]
    )


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return one case as JSON."""
    case, decision = outcome.case, outcome.came.decision
    return {
        "file": case.origin.file,
        "line": case.origin.line,
        "method": case.line.method,
        "url": case.line.url,
        "expected": str(case.expected),
        "came": str(decision.effect),
        "passed": outcome.passed,
        "rule": decision.rule,
        "because": outcome.came.reason,
        "reason": case.reason,
    }


def as_text(where: Path, outcomes: Sequence[Outcome], failed: Sequence[Outcome]) -> Iterator[str]:
    """Yield the results as text: each failure with its explanation, and the counts."""
    for outcome in failed:
        case, came = outcome.case, outcome.came
        yield f"{case.origin}: {case.line}"
        yield styled("- ", (case.expected, case.expected), f"  {case.reason}" if case.reason else "")
        yield styled("+ ", (came.decision.effect, came.decision.effect))
        yield from columns(why(came))
        yield ""
    hold = "case holds" if len(outcomes) == 1 else "cases hold"
    counts = (f"{len(outcomes) - len(failed)} of {len(outcomes)} {hold}", "fail" if failed else "ok")
    yield styled(f"{where}: ", counts if outcomes else "no cases")
