"""`agent-sandbox policy lint [FILE]`."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import Json, PolicyArgument, PolicyOption, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.counted import counted
from agent_sandbox.features.policy.file import named_policy
from agent_sandbox.features.policy.layers import load_here
from agent_sandbox.policyfile import LayerFile, load_layer, services_beside
from agent_sandbox.policyfile.layer_file import PROJECT
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.reading import read_policy
from agent_sandbox.policytools.edit.comments import comments_by_line
from agent_sandbox.policytools.lint.subject import Subject
from agent_sandbox.policytools.lint.table import CHECKS, Found
from agent_sandbox.policytools.lint.table import lint as run_checks

ACCEPT = "# accepted: CHECK, WHY"


def lint(
    file: PolicyArgument = None, *, policy: PolicyOption = None, path: ProjectPath = None, json: Json = False
) -> int:
    """Find entries that are valid but risky or useless. Exit 1 if there is a finding."""
    where = named_policy(file, policy, path=path)
    found = run_checks(subject_at(where))
    if json:
        emit_json({"file": str(where), "findings": [{"file": str(where), **one.as_json()} for one in found]})
    else:
        emit_lines(as_text(where, found))
    return FIXABLE if found else DONE


def subject_at(where: Path) -> Subject:
    """Return a policy file to lint, with the effective policy that it belongs to."""
    policy = load_here(where, os.environ)
    layer = load_layer(LayerFile(name=PROJECT, path=where), services=services_beside(where))
    text = decode_policy(read_policy(where), file=str(where))
    return Subject(layer=layer, comments=comments_by_line(text), policy=policy)


def as_text(file: Path, found: Sequence[Found]) -> Iterator[str]:
    """Yield the findings as text, each with its reason and remedy, and how to accept one."""
    if not found:
        yield f"{file}: nothing found by {len(CHECKS)} checks"
        return
    for one in found:
        finding = one.finding
        yield styled(f"{file}:{finding.line}: ", (one.check, "warn"), f": {finding.what}")
        yield styled("  ", ("why", "title"), f"   {finding.why}")
        yield styled("  ", ("fix", "title"), f"   {finding.fix}")
    yield styled(
        f"{counted(len(found), 'finding')}; to accept one, write a comment above its line: ", (ACCEPT, "command")
    )
