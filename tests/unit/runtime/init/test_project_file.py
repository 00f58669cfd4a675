from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.problems import UserError
from agent_sandbox.projectfile.editing import NEW
from agent_sandbox.render.paths import PROJECT_FILE, STACK
from agent_sandbox.render.record import Record
from agent_sandbox.resources import data_root
from agent_sandbox.runtime.init.project_file import Asked, digest_of, is_outdated, read_project_file, settle
from agent_sandbox.stack.limits import DEFAULT, GIB, limits
from agent_sandbox.stack.workspace import Ide, Owner
from init_project import Init

FIRST, SECOND, *_ = known_agents(data_root() / "templates")


def asked(*, agent: str = FIRST, ide: Ide | None = None, title: str | None = None, **texts: str) -> Asked:
    return Asked(agent=agent, ide=ide, title=title, limits=texts)


def record(*, project_file: str = "") -> Record:
    return Record(
        name="n",
        agent=FIRST,
        title="Before",
        ide=Ide.JETBRAINS,
        owner=Owner(),
        limits=limits({"memory": "2g"}),
        dotenv=True,
        project_file=project_file,
    )


def write(project: Path, text: str) -> None:
    (project / PROJECT_FILE).parent.mkdir(exist_ok=True)
    (project / PROJECT_FILE).write_text(text)


def test_without_an_option_no_file_is_needed(tmp_path: Path) -> None:
    found = settle(tmp_path, asked(), None)
    assert (found.limits, found.ide, found.title, found.digest, found.changes) == (DEFAULT, Ide.VSCODE, None, "", ())
    found = settle(tmp_path, asked(), record())
    assert (found.limits.memory, found.ide, found.title, found.changes) == (2 * GIB, Ide.JETBRAINS, "Before", ())


def test_the_first_option_writes_a_file_with_what_was_recorded(tmp_path: Path) -> None:
    found = settle(tmp_path, asked(cpus="1.5"), record())
    (change,) = found.changes
    assert change.after == f"{NEW}agents: [{FIRST}]\nide: jetbrains\nlimits:\n  memory: 2g\n  cpus: 1.5\n"
    assert (found.digest, found.title) == (digest_of(change.after), "Before")
    assert found.limits == limits({"memory": "2g", "cpus": "1.5"})


def test_a_file_decides_what_no_option_says(tmp_path: Path) -> None:
    write(tmp_path, "name: Mine # c\nlimits: {memory: 3g}\n")
    found = settle(tmp_path, asked(), record(project_file="other"))
    assert (found.limits, found.ide, found.title) == (limits({"memory": "3g"}), Ide.VSCODE, "Mine")
    assert (found.digest, found.changes) == (digest_of("name: Mine # c\nlimits: {memory: 3g}\n"), ())


def test_a_file_takes_over_what_an_earlier_init_recorded(tmp_path: Path) -> None:
    write(tmp_path, "limits: {cpus: 1}\n")
    (change,) = settle(tmp_path, asked(), record()).changes
    assert change.after == "limits: {cpus: 1, memory: 2g}\nide: jetbrains\n"


def test_an_option_edits_the_file(tmp_path: Path) -> None:
    write(tmp_path, f"agents: [{FIRST}] # c\nlimits:\n  memory: 3g # enough\n")
    (change,) = settle(tmp_path, asked(agent=SECOND, title="App", memory="4g", pids="99"), None).changes
    assert change.after == f"agents: [{SECOND}] # c\nlimits:\n  memory: 4g # enough\n  pids: 99\nname: App\n"


def test_an_invalid_option_is_reported_by_its_name_and_an_invalid_file_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        settle(tmp_path, asked(memory="lots"), None)
    assert str(error.value) == "--memory: `lots` is not a size: a number with k, m or g, as in `4g`"
    write(tmp_path, "agents: [nobody-knows]\n")
    with pytest.raises(UserError) as error:
        settle(tmp_path, asked(memory="4g"), None)
    assert str(error.value).startswith(f"{tmp_path / PROJECT_FILE}:1:10: unknown agent 'nobody-knows'; ")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / "elsewhere").write_text("name: a\n")
    (tmp_path / PROJECT_FILE).symlink_to("../elsewhere")
    with pytest.raises(UserError, match="agent-sandbox does not follow symbolic links"):
        read_project_file(tmp_path)


def test_a_stack_is_outdated_once_the_file_has_another_text(tmp_path: Path, init: Init) -> None:
    init(tmp_path / "app")
    assert not is_outdated(tmp_path / "app")
    write(tmp_path / "app", "limits: {memory: 3g}\n")
    assert is_outdated(tmp_path / "app")
    init(tmp_path / "app")
    assert not is_outdated(tmp_path / "app")
    assert "mem_limit: 3g" in (tmp_path / "app" / STACK).read_text()
    (tmp_path / "app" / PROJECT_FILE).unlink()
    assert is_outdated(tmp_path / "app")
    init(tmp_path / "app")
    assert "mem_limit: 8g" in (tmp_path / "app" / STACK).read_text()
