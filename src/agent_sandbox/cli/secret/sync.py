"""`agent-sandbox secret sync`."""

from pathlib import Path

from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.steps.execute import require_running
from agent_sandbox.cli.steps.secrets.secret_sources import sync as fetch_all
from agent_sandbox.cli.steps.trust_gate import open_known
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.problems import UserError


def sync(*, path: ProjectPath = None) -> None:
    """Fetch all secrets that have a source (`secret set --from`), as `up` does. No restart is needed."""
    project = open_known(path, cwd=Path.cwd())
    require_running(project, "proxy")
    count, problems = fetch_all(project)
    if problems:
        raise UserError(problems)
    say(f"{count} secrets fetched from their sources" if count != 1 else "1 secret fetched from its source")
