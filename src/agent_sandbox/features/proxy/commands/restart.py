"""`agent-sandbox proxy restart`."""

from pathlib import Path

from agent_sandbox.cli.framework.options import DryRun, ProjectPath, Quiet, Yes
from agent_sandbox.engines.verbs import Restart
from agent_sandbox.features.policy.file import require_policy
from agent_sandbox.features.secrets.secret_sources import sync_after_start
from agent_sandbox.features.stack.diagnose import why_not_up
from agent_sandbox.features.stack.execute import backend, driver, execute, require_made
from agent_sandbox.features.trust.trust_gate import open_trusted, open_unasked


def restart(*, path: ProjectPath = None, dry_run: DryRun = False, quiet: Quiet = False, yes: Yes = "") -> None:
    """Restart the proxy container, which then loads its policy. Connections end; `proxy reload` keeps them."""
    project = open_unasked(path, cwd=Path.cwd()) if dry_run else open_trusted(path, cwd=Path.cwd(), yes=yes)
    require_policy(project)  # with an invalid policy, the restarted proxy would deny everything
    if not dry_run:
        require_made(project, "proxy")
    plan = backend().plan(project, Restart(service="proxy"))
    execute(plan, dry_run=dry_run, quiet=quiet, explain=why_not_up(driver(), project))
    if not dry_run:
        sync_after_start(project)
