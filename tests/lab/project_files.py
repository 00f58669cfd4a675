"""Project files, recorded choices and written files for tests."""

from pathlib import Path

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.features.stack.init.project_file import Asked
from agent_sandbox.project.record import Record
from agent_sandbox.project.render.paths import PROJECT_FILE
from agent_sandbox.resources import data_root
from agent_sandbox.stack.limits import limits
from agent_sandbox.stack.recorded import Ide, Owner

FIRST, SECOND, *_ = known_agents(data_root() / "templates")


def asked(*, agent: str = FIRST, ide: Ide | None = None, title: str | None = None, **texts: str) -> Asked:
    """Return options of `init`; limits by name."""
    return Asked(agents=(agent,), ide=ide, title=title, limits=texts)


def record(*, project_file: str = "") -> Record:
    """Return the record of an earlier `init`."""
    return Record(
        name="n",
        agents=(FIRST,),
        title="Before",
        ide=Ide.JETBRAINS,
        owner=Owner(),
        limits=limits({"memory": "2g"}),
        dotenv=True,
        project_file=project_file,
    )


def write(project: Path, text: str) -> None:
    """Write the project file."""
    (project / PROJECT_FILE).parent.mkdir(exist_ok=True)
    (project / PROJECT_FILE).write_text(text)
