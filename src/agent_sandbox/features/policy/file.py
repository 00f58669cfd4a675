"""Find the policy file of a command, and check it before a stack starts."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.root import find_root

if TYPE_CHECKING:
    from agent_sandbox.policy.engine.policy import Policy
    from agent_sandbox.policyfile import LayerFile
    from agent_sandbox.project.project import Project

POLICY_FILE = Path(".devcontainer", "policy.yaml")


def named_policy(*files: Path | None, path: Path | None) -> Path:
    """Return the policy given as FILE or by --policy, else the project's; relative if below the current directory."""
    named = [file for file in files if file is not None]
    if len(named) > 1:
        raise UserError([Problem(where=str(named[1]), what="a second policy", hint="name FILE or --policy, not both")])
    cwd = Path.cwd()
    return shown(named[0] if named else find_policy(path, cwd=cwd), cwd=cwd)


def find_policy(path: Path | None, *, cwd: Path) -> Path:
    """Return the policy file of the project at `path`, or of the one that contains `cwd`; it needs no stack.

    `path` may also be the name of a stack or of a clone.
    """
    root = _root_of_stack(path, cwd) or path or find_root(None, cwd=cwd)
    if root is not None:
        return root / POLICY_FILE
    for folder in (cwd, *cwd.parents):
        if os.path.exists(folder / POLICY_FILE):
            return folder / POLICY_FILE
    what = f"there is no {POLICY_FILE} here or above"
    raise UserError([Problem(where=str(cwd), what=what, hint="name a file, or `agent-sandbox init AGENT` writes one")])


def _root_of_stack(path: Path | None, cwd: Path) -> Path | None:
    if path is None or os.path.lexists(path):
        return None
    from agent_sandbox.project.installed import named_root  # noqa: PLC0415 - only for a name
    from agent_sandbox.project.trust_store import open_store  # noqa: PLC0415 - as above

    return named_root(path, open_store(os.environ), cwd=cwd)


def shown(file: Path, *, cwd: Path) -> Path:
    """Return the path relative to `cwd` if it is below it."""
    return file.relative_to(cwd) if file.is_relative_to(cwd) else file


def layer_lines(policy: "Policy", layers: Sequence["LayerFile"]) -> Iterator[str]:
    """Yield a line for each other layer of a policy, with its file and whether it restricts."""
    narrowing = {restriction.origin.layer for restriction in policy.rules.restrictions}
    for layer in layers:
        narrows = ", which limits what all other layers allow" if layer.name in narrowing else ""
        yield f"with {layer.shown}: {layer.path}{narrows}"


def require_policy(project: "Project") -> None:
    """Load the policy with this machine's layers, and report layers that the stack's proxy does not see."""
    from agent_sandbox.features.policy.layers import require_here  # noqa: PLC0415 - not needed for `--help`
    from agent_sandbox.features.policy.unmounted_layers import unmounted_layers  # noqa: PLC0415 - not needed for `--help`

    require_here(shown(project.policy, cwd=Path.cwd()), os.environ)
    for layer in unmounted_layers(project, os.environ, mending=f"{project.init}, then agent-sandbox up"):
        say(layer)
