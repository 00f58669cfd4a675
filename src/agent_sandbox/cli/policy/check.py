"""`agent-sandbox policy check [FILE]`."""

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from agent_sandbox.cli.errors import DONE, MENDABLE
from agent_sandbox.cli.excerpt import excerpt
from agent_sandbox.cli.options import Json, PolicyArgument, PolicyOption, ProjectPath
from agent_sandbox.cli.output import emit, emit_json, say_problems
from agent_sandbox.cli.policy_file import layer_lines, named_policy
from agent_sandbox.policyfile.decoding import decode_policy
from agent_sandbox.policyfile.reading import read_policy
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.layers import layers_here, load_here


def check(
    file: PolicyArgument = None, *, policy: PolicyOption = None, path: ProjectPath = None, json: Json = False
) -> int:
    """Print every problem of a policy file, with its line."""
    where = named_policy(file, policy, path=path)
    try:
        loaded = load_here(where, os.environ)
    except UserError as error:
        if not json:
            say_problems(error.problems, beside=_excerpts(where))
            return MENDABLE
        emit_json({"file": str(where), "valid": False, "problems": [asdict(problem) for problem in error.problems]})
        return MENDABLE
    rules, layers = len(loaded.rules.rules), layers_here(os.environ, beside=where)
    if json:
        used = [{"name": layer.name, "file": str(layer.path)} for layer in layers]
        answer = {"file": str(where), "valid": True, "problems": [], "digest": loaded.digest, "rules": rules}
        emit_json({**answer, "layers": used})
    else:
        emit("\n".join((f"{where}: valid, {rules} rules, digest {loaded.digest[:12]}", *layer_lines(loaded, layers))))
        if loaded.refusal:
            emit(f"everything is denied: {loaded.refusal}")
    return DONE


def _excerpts(file: Path) -> Callable[[Problem], str]:
    """Return what shows the line of a problem, where it is in this file and the file can be shown at all."""
    try:
        lines = decode_policy(read_policy(file), file=str(file)).splitlines()
    except UserError:
        return lambda _: ""
    return lambda problem: excerpt(problem, lines) if problem.where.startswith(f"{file}:") else ""
