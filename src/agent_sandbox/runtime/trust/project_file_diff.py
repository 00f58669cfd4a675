"""List what a project's `sandbox.yaml` asks for that was not trusted."""

from agent_sandbox.problems import UserError
from agent_sandbox.projectfile import widening
from agent_sandbox.projectfile.parsing import parse_project_file
from agent_sandbox.projectfile.spec import ProjectSpec
from agent_sandbox.render.paths import PROJECT_FILE
from agent_sandbox.runtime.project.trust_snapshot import Standing


def widens(now: Standing, before: Standing) -> tuple[str, ...]:
    """Return one line for each key that widens; a file that cannot be read counts as a change."""
    try:
        return widening.widens(_spec(now), _spec(before))
    except UserError as error:
        return tuple(f"cannot be read: {line}" for line in str(error).splitlines())


def _spec(standing: Standing) -> ProjectSpec:
    return parse_project_file(standing.files.get(PROJECT_FILE, ""), file=PROJECT_FILE)
