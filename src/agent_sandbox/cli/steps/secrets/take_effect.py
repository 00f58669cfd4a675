"""Have a secret that was set up take effect, or say when it will."""

from collections.abc import Callable

from agent_sandbox.backends.project import Project
from agent_sandbox.cli.steps.running_clones import running_clones
from agent_sandbox.cli.steps.secrets.login_sync import proxy_runs
from agent_sandbox.cli.terminal.output import say


def take_effect(project: Project, secret: str, load: Callable[[], object], *, is_stored: bool) -> None:
    """Call `load`, which has the running proxies load the changed policy; before the first `up`, say what `up` does.

    A secret that is not stored has a source, and no proxy that could hold its value.
    """
    runs = proxy_runs(project)
    if not is_stored:
        say(f"{secret} will be fetched from its source by agent-sandbox up")
    elif not runs:
        say(f"{secret} is stored, and agent-sandbox up loads the policy")
    if runs or running_clones(project.root):
        load()
