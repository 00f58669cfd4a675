"""`agent-sandbox policy show [FILE]`."""

from pathlib import Path

from agent_sandbox.cli.options import Json, ProjectPath
from agent_sandbox.cli.output import emit, emit_json
from agent_sandbox.cli.policy.check import File
from agent_sandbox.cli.policy_file import find_policy, shown
from agent_sandbox.policy.dump import dump_rule
from agent_sandbox.policy.effective import Policy
from agent_sandbox.policy.rule import Rule


def show(file: File = None, *, path: ProjectPath = None, json: Json = False) -> None:
    """Print what the policy comes to: every rule with the line that it stands on, services included."""
    from agent_sandbox.policyfile import load_policy  # noqa: PLC0415 - `--help` needs none of it

    where = shown(file or find_policy(path, cwd=Path.cwd()), cwd=Path.cwd())
    policy = load_policy(where)
    if json:
        emit_json(as_json(where, policy))
    else:
        emit(as_text(where, policy))


def as_json(file: Path, policy: Policy) -> dict[str, object]:
    """Return the effective policy for a program."""
    return {
        "file": str(file),
        "digest": policy.digest,
        "refusal": policy.refusal,
        "block_status": policy.block_status,
        "rules": [dump_rule(rule) for rule in _ordered(policy)],
    }


def as_text(file: Path, policy: Policy) -> str:
    """Return the effective policy for a person: one rule a line, in columns, everything else denied."""
    rows = [(str(rule.effect), str(rule), str(rule.origin), rule.reason) for rule in _ordered(policy)]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    lines = ["  ".join((*map(str.ljust, row[:3], widths), row[3])).rstrip() for row in rows]
    last = f"deny   everything else{f': {policy.refusal}' if policy.refusal else ''}"
    return "\n".join((f"{file} (digest {policy.digest[:12]})", *lines, last))


def _ordered(policy: Policy) -> list[Rule]:
    return sorted(policy.rules.rules, key=lambda rule: (rule.origin.file, rule.origin.line, str(rule)))
