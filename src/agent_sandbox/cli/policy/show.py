"""`agent-sandbox policy show [FILE]`."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sandbox.cli.options import Json, ProjectPath
from agent_sandbox.cli.output import emit, emit_json
from agent_sandbox.cli.policy.check import File
from agent_sandbox.cli.policy_file import find_policy, shown
from agent_sandbox.policy.dump import dump_rule
from agent_sandbox.policy.effective import Policy
from agent_sandbox.policy.rule import Rule

if TYPE_CHECKING:
    from agent_sandbox.policyfile import LayerFile

# What a layer that only narrows lets through: all that others allow has to be within.
CEILING = "within"
NOTHING = ("allow", "", "")  # the columns of a policy without a rule


def show(file: File = None, *, path: ProjectPath = None, json: Json = False) -> None:
    """Print what the policy comes to: every rule with the line that it stands on, services included."""
    from agent_sandbox.runtime.layers import layers_here, load_here  # noqa: PLC0415 - `--help` needs none of it

    where = shown(file or find_policy(path, cwd=Path.cwd()), cwd=Path.cwd())
    policy, layers = load_here(where, os.environ), layers_here(os.environ, beside=where)
    if json:
        emit_json(as_json(where, policy, layers))
    else:
        emit(as_text(where, policy, layers))


def as_json(file: Path, policy: Policy, layers: Sequence["LayerFile"]) -> dict[str, object]:
    """Return the effective policy for a program."""
    return {
        "file": str(file),
        "digest": policy.digest,
        "refusal": policy.refusal,
        "settings": asdict(policy.settings),
        "layers": [{"name": layer.name, "file": str(layer.path)} for layer in layers],
        "rules": [dump_rule(rule) for rule in _ordered(policy.rules.rules)],
        "ceilings": [
            {"layer": ceiling.origin.layer, "rules": [dump_rule(rule) for rule in _ordered(ceiling.rules)]}
            for ceiling in policy.rules.ceilings
        ],
    }


def as_text(file: Path, policy: Policy, layers: Sequence["LayerFile"]) -> str:
    """Return the effective policy for a person: one rule a line, in columns, everything else denied."""
    rows = [(str(rule.effect), str(rule), str(rule.origin), rule.reason) for rule in _ordered(policy.rules.rules)]
    rows += [
        (CEILING, str(rule), str(rule.origin), rule.reason)
        for ceiling in policy.rules.ceilings
        for rule in _ordered(ceiling.rules)
    ]
    widths = [max(len(row[column]) for row in (*rows, NOTHING)) for column in range(3)]
    lines = ["  ".join((*map(str.ljust, row[:3], widths), row[3])).rstrip() for row in rows]
    last = f"{'deny':<{widths[0]}}  everything else{f': {policy.refusal}' if policy.refusal else ''}"
    beside = (f"with {layer.shown}: {layer.path}" for layer in layers)
    return "\n".join((f"{file} (digest {policy.digest[:12]})", *beside, *lines, last))


def _ordered(rules: Iterable[Rule]) -> list[Rule]:
    return sorted(rules, key=lambda rule: (rule.origin.file, rule.origin.line, str(rule)))
