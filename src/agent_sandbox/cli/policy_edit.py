"""What `policy allow` and `policy deny` have in common: one rule more in the policy file."""

import os
from difflib import unified_diff
from pathlib import Path
from typing import Annotated

from agent_sandbox.cli.output import emit, say
from agent_sandbox.cli.parameters import Argument, Option
from agent_sandbox.cli.policy_file import find_policy, shown
from agent_sandbox.policy.decision import Effect

Url = Annotated[str | None, Argument(help="The URL, where the method stands alone.")]
PolicyFile = Annotated[Path | None, Option(help="The policy; otherwise the project's.")]
APPLY = "to apply it: docker compose restart proxy (or agent-sandbox proxy reload)"
DONE = {Effect.ALLOW: "allowed", Effect.DENY: "denied"}


def add_rule(  # noqa: PLR0913 - what a command line can say
    effect: Effect, rule: str, url: str | None, *, policy: Path | None, path: Path | None, dry_run: bool
) -> None:
    """Put the rule into the policy file and say where, or print what that would change."""
    # `--help` needs none of it.
    from agent_sandbox.policytools.editing import Standing  # noqa: PLC0415
    from agent_sandbox.policytools.insertion import written  # noqa: PLC0415
    from agent_sandbox.policytools.shortrule import read_short_rule  # noqa: PLC0415
    from agent_sandbox.runtime.policy_edit import planned_edit, write_edit  # noqa: PLC0415
    from agent_sandbox.runtime.trust.remember import remembering  # noqa: PLC0415

    wanted = read_short_rule(effect, (rule, *([] if url is None else [url])))
    file = shown(policy or find_policy(path, cwd=Path.cwd()), cwd=Path.cwd())
    before, after = planned_edit(file, wanted, os.environ)
    if isinstance(after, Standing):
        emit(f"{wanted.text} is {DONE[effect]} already, by {after.rule.origin}: {after.rule}")
    elif dry_run:
        emit(difference(file, before, after.text))
    else:
        with remembering(file, after.text, os.environ):
            write_edit(file, before, after)
        emit(f"{file}:{after.line}: added `- {written(wanted.text)}` under `{wanted.section}`")
        for deny in after.beaten_by:
            say(f"a part of it stays denied, by {deny.origin}: {deny}")
        say(APPLY)


def difference(file: Path, before: str, after: str) -> str:
    """Return the unified diff of two texts, whatever ends their lines."""
    lines = unified_diff(before.splitlines(), after.splitlines(), f"a/{file}", f"b/{file}", lineterm="")
    return "\n".join(lines)
