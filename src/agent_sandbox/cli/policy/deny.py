"""`agent-sandbox policy deny 'METHOD URL'`."""

from agent_sandbox.cli.framework.options import DryRun, PolicyOption, ProjectPath
from agent_sandbox.cli.steps.policy.policy_edit import METHODS, Reload, Rule, Url, add_rule
from agent_sandbox.policy.decision import Effect


def completions(*before: str) -> tuple[str, ...]:
    """Return the methods, for shell completion."""
    return () if before else METHODS


def deny(  # noqa: PLR0913 - each is an option
    rule: Rule,
    url: Url = None,
    *,
    policy: PolicyOption = None,
    path: ProjectPath = None,
    dry_run: DryRun = False,
    reload: Reload = False,
) -> None:
    """Deny a request or a whole host; a deny wins over every allow."""
    add_rule(Effect.DENY, rule, url, policy=policy, path=path, dry_run=dry_run, reload=reload)
