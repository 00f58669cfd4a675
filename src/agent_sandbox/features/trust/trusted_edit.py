"""Edit a policy while no other command does, and keep it trusted; apart from `auto_trust`, which `init` loads too."""

from collections.abc import Callable, Mapping
from pathlib import Path

from agent_sandbox.features.policy.rule_edit import project_of, write_edit
from agent_sandbox.features.trust.auto_trust import remembering
from agent_sandbox.host.files import project_lock
from agent_sandbox.host.user_dirs import state_directory
from agent_sandbox.policytools.edit.editing import Edited
from agent_sandbox.project.render.paths import POLICY


def write_trusted(
    policy: Path, plan: Callable[[], tuple[str, Edited | None]], environ: Mapping[str, str]
) -> Edited | None:
    """Write the edit of the policy that `plan` returns, trust it if the policy was trusted, and return it.

    Meanwhile no other command edits it: `plan` reads the text that the edit replaces.
    """
    with project_lock(project_of(policy), state_directory(environ)):
        before, after = plan()
        if after is not None:
            with remembering(policy, {POLICY: after.text}, environ):
                write_edit(policy, before, after)
    return after
