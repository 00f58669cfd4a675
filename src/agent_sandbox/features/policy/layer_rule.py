"""Write a rule that a person allowed into the project's policy or the user's own, and load it."""

import os
from enum import StrEnum
from pathlib import Path

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.features.policy.edit import put
from agent_sandbox.features.policy.file import POLICY_FILE, shown
from agent_sandbox.features.policy.layers import FILE
from agent_sandbox.features.proxy.reload_policy import reload_stack, report
from agent_sandbox.host.user_dirs import config_directory
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import read_facts
from agent_sandbox.project.project import Project

ELSEWHERE = "this also applies to your other projects: agent-sandbox proxy reload, in those that run"


class RuleLayer(StrEnum):
    """The layer that a rule is written to."""

    PROJECT = "project"
    USER = "user"


def layer_policy(root: Path, layer: RuleLayer) -> Path:
    """Return the policy file of the layer, which may not exist yet in the user's."""
    if layer is RuleLayer.PROJECT:
        return root / POLICY_FILE
    folder = config_directory(os.environ)
    if folder is None:
        raise UserError([Problem(where="HOME", what="not an absolute path", hint="set it to your home directory")])
    return folder / FILE


def require_mounted(project: Project, layer: RuleLayer) -> None:
    """Raise UserError if the project's proxy could not see a rule in this layer."""
    if layer is RuleLayer.PROJECT:
        return
    folder = layer_policy(project.root, layer).parent
    if str(folder.resolve()) not in read_facts(project.root).layers:
        made = "" if folder.is_dir() else f"mkdir -p {folder}, then "
        hint = f"{made}{project.init}, then agent-sandbox up; or allow it for the project"
        raise UserError([Problem(where=str(folder), what="the sandbox of this project was made without it", hint=hint)])


def write_layer_rule(project: Project, rule: str, layer: RuleLayer) -> None:
    """Write an entry of `allow` into the layer's policy, and have the proxy load it."""
    require_mounted(project, layer)
    put(read_short_rule(Effect.ALLOW, [rule]), shown(layer_policy(project.root, layer), cwd=Path.cwd()))
    report(reload_stack(project.root))
    if layer is RuleLayer.USER:
        say(ELSEWHERE)
