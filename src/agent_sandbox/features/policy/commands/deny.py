"""`agent-sandbox policy deny 'METHOD URL'`."""

from typing import Annotated

from typer import Argument

from agent_sandbox.cli.framework.options import DryRun, NoReload, PolicyOption, ProjectPath, RuleUrl
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.http.method import STANDARD

Rule = Annotated[
    str, Argument(help="'GET https://example.com/path', quoted or as two words; a URL, for every method; or a host.")
]


def completions(*before: str) -> tuple[str, ...]:
    """Return the methods, for shell completion."""
    return () if before else tuple(sorted(STANDARD))


def deny(  # noqa: PLR0913 - each is an option
    rule: Rule,
    url: RuleUrl = None,
    *,
    policy: PolicyOption = None,
    path: ProjectPath = None,
    dry_run: DryRun = False,
    no_reload: NoReload = False,
) -> None:
    """Deny a request or a whole host; a deny wins over every allow.

    The running proxy reloads its policy, and so do the running clones of the project.
    """
    from agent_sandbox.features.policy.edit import add_rule  # noqa: PLC0415 - brings pydantic; `--help` needs none of it

    add_rule(Effect.DENY, rule, url, policy=policy, path=path, dry_run=dry_run, no_reload=no_reload)
