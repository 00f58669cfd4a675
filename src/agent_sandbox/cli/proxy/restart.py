"""`agent-sandbox proxy restart`."""

from pathlib import Path

from agent_sandbox.backends.verbs import Restart
from agent_sandbox.cli.carry_out import backend, carry_out, require_made
from agent_sandbox.cli.gate import open_trusted, open_unasked
from agent_sandbox.cli.options import DryRun, ProjectPath, Yes
from agent_sandbox.cli.policy_file import require_policy
from agent_sandbox.cli.typer_options import Quiet
from agent_sandbox.runtime.diagnose import why_not_up


def restart(*, path: ProjectPath = None, dry_run: DryRun = False, quiet: Quiet = False, yes: Yes = "") -> None:
    """Restart the proxy, which reads its policy at start. Connections end; `proxy reload` keeps them."""
    project = open_unasked(path, cwd=Path.cwd()) if dry_run else open_trusted(path, cwd=Path.cwd(), yes=yes)
    require_policy(project)  # with an invalid one the proxy would come back and deny everything
    if not dry_run:
        require_made(project, "proxy")
    plan = backend().plan(project, Restart(service="proxy"))
    carry_out(plan, dry_run=dry_run, quiet=quiet, explain=why_not_up(project))
