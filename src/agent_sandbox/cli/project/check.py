"""`agent-sandbox project check`."""

from pathlib import Path

from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.render.paths import PROJECT_FILE
from agent_sandbox.runtime.host.files import read_text
from agent_sandbox.runtime.project.project_file import additions_in, beside_images_in, project_files
from agent_sandbox.runtime.project.root import find_root


def check(*, path: ProjectPath = None) -> None:
    """Report every problem in the project's .devcontainer/sandbox.yaml, with its line; exit 1 if there is one."""
    from agent_sandbox.runtime.init.project_edit import parse, require_setup  # noqa: PLC0415 - not needed for `--help`

    root = find_root(path, cwd=Path.cwd()) or Path.cwd()
    text = read_text(root, PROJECT_FILE)
    if text is None:
        hint = "it is optional: `agent-sandbox init` with an option, such as --memory 4g, writes one"
        raise UserError([Problem(where=str(root / PROJECT_FILE), what="there is no project file", hint=hint)])
    spec, texts = parse(root, text), project_files(root)
    additions_in(texts)
    beside_images_in(texts)
    require_setup(spec, texts, file=str(root / PROJECT_FILE))
    say(f"{PROJECT_FILE}: ", ("ok", "ok"))
