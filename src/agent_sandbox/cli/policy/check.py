"""`agent-sandbox policy check [FILE]`."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from agent_sandbox.cli.errors import DONE, MENDABLE
from agent_sandbox.cli.options import Json, ProjectPath
from agent_sandbox.cli.output import emit, emit_json
from agent_sandbox.cli.parameters import Argument
from agent_sandbox.cli.policy_file import find_policy, shown
from agent_sandbox.problems import UserError

File = Annotated[Path | None, Argument(help="The policy; otherwise the project's.")]


def check(file: File = None, *, path: ProjectPath = None, json: Json = False) -> int:
    """Print every problem of a policy file, with its line."""
    from agent_sandbox.runtime.layers import load_here  # noqa: PLC0415 - `--help` needs none of it

    where = shown(file or find_policy(path, cwd=Path.cwd()), cwd=Path.cwd())
    try:
        policy = load_here(where, os.environ)
    except UserError as error:
        if not json:
            raise
        emit_json({"file": str(where), "valid": False, "problems": [asdict(problem) for problem in error.problems]})
        return MENDABLE
    rules = len(policy.rules.rules)
    if json:
        emit_json({"file": str(where), "valid": True, "problems": [], "digest": policy.digest, "rules": rules})
    else:
        emit(f"{where}: valid, {rules} rules, digest {policy.digest[:12]}")
        if policy.refusal:
            emit(f"everything is denied: {policy.refusal}")
    return DONE
