"""Have a secret that was set up take effect, or say when it will."""

from pathlib import Path

from agent_sandbox.backends.project import Project
from agent_sandbox.cli.steps.policy.reload_policy import reload_stack, report, say_loaded
from agent_sandbox.cli.steps.running_clones import running_clones
from agent_sandbox.cli.steps.secrets.login_sync import proxy_runs
from agent_sandbox.cli.terminal.output import say


def take_effect(project: Project, secret: str, path: Path | None, *, is_stored: bool, how: str = "") -> None:
    """Have the running proxies load the changed policy; before the first `up`, say what `up` does.

    List what changed if `how` is given: what the policy does with the secret, to print if nothing changed.
    A secret that is not stored has a source, and no proxy that could hold its value.
    """
    runs = proxy_runs(project)
    if not is_stored:
        say(f"{secret} will be fetched from its source by agent-sandbox up")
    elif not runs:
        say(f"{secret} is stored, and agent-sandbox up loads the policy")
    if runs or running_clones(project.root):
        answer = reload_stack(path)
        if how:
            report(answer, unchanged=f"{secret} was replaced; the policy {how} already")
        else:
            say_loaded(answer)
