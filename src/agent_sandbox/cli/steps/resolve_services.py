"""Resolve the services that a policy names from this machine's configuration, and say to what."""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sandbox.cli.steps.policy_file import POLICY_FILE
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.problems import UserError

if TYPE_CHECKING:
    from agent_sandbox.runtime.policies.resolving import Resolved


def resolve_named(policy: Path) -> tuple[str, ...]:
    """Resolve the services that the policy names and that have no file yet; return what to print."""
    from agent_sandbox.runtime.policies.self_resolving import unresolved  # noqa: PLC0415 - not needed for `--help`

    names = unresolved(policy)
    return resolve_these(policy, names) if names else ()


def resolve_these(policy: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Resolve these services; return one line for each registry, and for what the user may want to know."""
    from agent_sandbox.runtime.policies.registries import this_machine  # noqa: PLC0415 - most policies are resolved
    from agent_sandbox.runtime.policies.self_resolving import find, without_answer  # noqa: PLC0415 - as above

    policy = policy.absolute()
    found = find(policy, names, this_machine(os.environ, project=policy.parent.parent))
    write_resolved(policy, found.plans)
    return (*found.lines, *found.notes, *map(without_answer, found.unknown))


def write_resolved(policy: Path, plans: Sequence["Resolved"], *, trust: bool = True) -> None:
    """Write the files of resolved services and keep them out of git: they say how this machine is set up.

    They are trusted if the policy is, unless `trust` is False.
    """
    from agent_sandbox.runtime.policies.resolving import write  # noqa: PLC0415 - as above
    from agent_sandbox.runtime.trust.auto_trust import remembering  # noqa: PLC0415 - as above

    texts = {
        str(POLICY_FILE.parent / change.path): change.after
        for plan in plans
        for change in plan.changes
        if change.writes
    }
    if not texts:
        return
    with remembering(policy, texts, os.environ) if trust else nullcontext():
        for plan in plans:
            write(policy, plan)
    _keep_out_of_git(policy.absolute().parent.parent, tuple(texts))


def _keep_out_of_git(project: Path, paths: Sequence[str]) -> None:
    from agent_sandbox.runtime.host.files import write_all  # noqa: PLC0415 - as above
    from agent_sandbox.runtime.init.git_exclude import EXCLUDE, excluding, not_ignored  # noqa: PLC0415 - as above

    try:
        if new := not_ignored(project, paths):
            write_all(project, {EXCLUDE: excluding(project, new)})
    except UserError as error:
        say(f"note: {error}")  # git shows the files, and nothing else differs
