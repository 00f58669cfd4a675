"""`agent-sandbox secret sync`."""

from pathlib import Path

from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.features.secrets.login_sync import proxy_runs
from agent_sandbox.features.secrets.secret_sources import fetched, give
from agent_sandbox.features.secrets.secret_sources import sync as fetch_all
from agent_sandbox.features.trust.trust_gate import open_known
from agent_sandbox.problems import UserError


def sync(*, path: ProjectPath = None) -> None:
    """Fetch all secrets that have a source (`secret set --from`), as `up` does. No restart is needed.

    If the proxy does not run, this only tries the sources.
    """
    project = open_known(path, cwd=Path.cwd())
    is_there = proxy_runs(project)
    count, problems = fetch_all(project, give=give if is_there else fetched)
    if problems:
        raise UserError(problems)
    done = f"{count} secrets fetched from their sources" if count != 1 else "1 secret fetched from its source"
    say(done if is_there else f"{done}, as a test: agent-sandbox up gives the proxy their values")
