"""`agent-sandbox proxy reload`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from agent_sandbox.backends.verbs import AskProxy
from agent_sandbox.cli.carry_out import backend, require_running
from agent_sandbox.cli.options import ProjectPath
from agent_sandbox.cli.output import say
from agent_sandbox.cli.policy_file import require_policy
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.installed import open_project
from agent_sandbox.runtime.proxy_control import ask_socket, ask_stack

Control = Annotated[
    Path | None,
    typer.Option("--control", help="The control socket of a proxy on this machine (`proxy run`).", metavar="SOCK"),
]


def reload(*, path: ProjectPath = None, control: Control = None) -> None:
    """Have the proxy read its policy again, at once; an invalid one changes nothing and fails with its lines."""
    answer = ask_socket(control, "reload") if control else _in_stack(path)
    if answer.get("ok") is not True:
        said = answer.get("problems") or [str(answer.get("error", "the proxy did not take the policy"))]
        problems = [Problem(where="", what=str(text)) for text in said]
        raise UserError([*problems, Problem(where="", what="nothing was changed: the last good policy stays")])
    say(f"policy loaded, digest {str(answer.get('digest', ''))[:12]}")


def _in_stack(path: Path | None) -> dict[str, Any]:
    project = open_project(path, cwd=Path.cwd())
    require_policy(project)  # the same check as the proxy's, with the path as it is here
    require_running(project, "proxy")
    return dict(ask_stack(backend().plan(project, AskProxy(argv=("reload",)))))
