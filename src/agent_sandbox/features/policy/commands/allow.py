"""`agent-sandbox policy allow 'METHOD URL'`, or a host."""

from typing import Annotated

from typer import Argument

from agent_sandbox.cli.framework.options import DryRun, PolicyOption, ProjectPath
from agent_sandbox.features.policy.edit import METHODS, NoReload, Url, add_rule
from agent_sandbox.policy.decision import Effect

Rule = Annotated[
    str, Argument(help="'GET https://example.com/path', quoted or as two words; a host; or a service, such as npm.")
]


def completions(*before: str) -> tuple[str, ...]:
    """Return the methods, for shell completion."""
    return () if before else METHODS


def allow(  # noqa: PLR0913 - each is an option
    rule: Rule,
    url: Url = None,
    *,
    policy: PolicyOption = None,
    path: ProjectPath = None,
    dry_run: DryRun = False,
    no_reload: NoReload = False,
) -> None:
    """Allow a request, `METHOD URL` with optional `*` and `**` in the path, a whole host, or a service.

    The running proxy reloads its policy, and so do the running clones of the project.
    """
    add_rule(Effect.ALLOW, rule, url, policy=policy, path=path, dry_run=dry_run, no_reload=no_reload)
