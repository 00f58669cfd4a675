"""`agent-sandbox policy deny 'METHOD URL'`."""

from agent_sandbox.cli.framework.options import DryRun, PolicyOption, ProjectPath
from agent_sandbox.features.policy.edit import METHODS, NoReload, Rule, Url, add_rule
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
    no_reload: NoReload = False,
) -> None:
    """Deny a request or a whole host; a deny wins over every allow.

    The running proxy reloads its policy, and so do the running clones of the project.
    """
    add_rule(Effect.DENY, rule, url, policy=policy, path=path, dry_run=dry_run, no_reload=no_reload)
