"""`agent-sandbox project check`."""

import os
from pathlib import Path

from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.host.agents import known_agents
from agent_sandbox.host.files import read_text
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.render.paths import PROJECT_FILE
from agent_sandbox.project.root import find_root


def check(*, path: ProjectPath = None) -> None:
    """Report each problem of .devcontainer/sandbox.yaml for which `up` would refuse it; exit 1 if there is one."""
    from agent_sandbox.features.stack.init.initialise import InitOptions, agents_of, prepare  # noqa: PLC0415 - not needed for `--help`

    root = find_root(path, cwd=Path.cwd()) or Path.cwd()
    text = read_text(root, PROJECT_FILE)
    if text is None:
        hint = "it is optional: `agent-sandbox init` with an option, such as --memory 4g, writes one"
        raise UserError([Problem(where=str(root / PROJECT_FILE), what="there is no project file", hint=hint)])
    # What `up` would write is not only what this file says: a mount or a mask also has to fit what is there.
    prepare(InitOptions(agents=agents_of(root, os.environ) or known_agents()[:1], path=root), os.environ)
    say(f"{PROJECT_FILE}: ", ("ok", "ok"))
