from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.features.stack.init.project_edit import NEW, Key, add_packages, edited, set_keys
from agent_sandbox.features.stack.init.project_file import Asked, Settled
from agent_sandbox.images import Additions
from agent_sandbox.policytools.edit.value import Simple
from agent_sandbox.problems import UserError
from agent_sandbox.project.record import Record
from agent_sandbox.project.render.paths import PROJECT_FILE
from agent_sandbox.projectfile.parsing import parse_project_file
from agent_sandbox.stack.limits import limits
from agent_sandbox.stack.recorded import Ide
from project_files import FIRST, SECOND, asked, record, write
from table_tests import each

MEMORY: dict[Key, Simple] = {("limits", "memory"): "4g"}


def settled(project: Path, options: Asked, recorded: Record | None) -> Settled:
    file = project / PROJECT_FILE
    before = file.read_text() if file.exists() else None
    return edited(project, before, options, recorded, title=recorded.title if recorded else "")


def test_the_first_option_creates_a_project_file_with_the_recorded_choices(tmp_path: Path) -> None:
    found = settled(tmp_path, asked(cpus="1.5"), record())
    (change,) = found.changes
    assert change.after == f"{NEW}agents: [{FIRST}]\nide: jetbrains\nlimits:\n  memory: 2g\n  cpus: 1.5\n"
    assert (found.text, found.title) == (change.after, "Before")
    assert found.limits == limits({"memory": "2g", "cpus": "1.5"})


def test_the_project_file_decides_what_no_option_sets(tmp_path: Path) -> None:
    write(tmp_path, "name: Mine # c\nlimits: {memory: 3g}\n")
    found = settled(tmp_path, asked(), None)
    assert (found.limits, found.ide, found.title) == (limits({"memory": "3g"}), Ide.VSCODE, "Mine")
    assert (found.text, found.changes) == ("name: Mine # c\nlimits: {memory: 3g}\n", ())


def test_adds_the_recorded_choices_of_an_earlier_init_to_the_project_file(tmp_path: Path) -> None:
    write(tmp_path, "limits: {cpus: 1}\n")
    (change,) = settled(tmp_path, asked(), record()).changes
    assert change.after == "limits: {cpus: 1, memory: 2g}\nide: jetbrains\n"


def test_an_option_edits_the_project_file(tmp_path: Path) -> None:
    write(tmp_path, f"agents: [{FIRST}] # c\nlimits:\n  memory: 3g # enough\n")
    (change,) = settled(tmp_path, asked(agent=SECOND, title="App", memory="4g", pids="99"), None).changes
    assert change.after == f"agents: [{SECOND}] # c\nlimits:\n  memory: 4g # enough\n  pids: 99\nname: App\n"


def test_adds_packages_to_those_in_the_project_file(tmp_path: Path) -> None:
    write(tmp_path, "packages:\n  - tree # c\n")
    found = settled(tmp_path, replace(asked(), packages=("golang", "tree")), None)
    assert found.changes[0].after == "packages:\n  - tree # c\n  - golang\n"
    assert found.added == Additions(packages=("tree", "golang"))


def test_rejects_a_setup_script_that_is_missing_or_masked(tmp_path: Path) -> None:
    write(tmp_path, "setup: scripts/a.sh\nmask: [scripts/]\n")
    with pytest.raises(UserError) as error:
        settled(tmp_path, asked(), None)
    file = tmp_path / PROJECT_FILE
    assert str(error.value) == f"{file}:1:8: `setup` names a file that does not exist: scripts/a.sh"
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "a.sh").write_text("")
    with pytest.raises(UserError) as error:
        settled(tmp_path, asked(), None)
    assert str(error.value) == f"{file}:1:8: `setup` names a file that `mask` hides: scripts/"
    write(tmp_path, "setup: scripts/a.sh\n")
    spec = settled(tmp_path, asked(), None).spec
    assert spec
    assert spec.setup == "scripts/a.sh"


def test_writes_a_base_image_to_the_project_file_and_rejects_an_invalid_name(tmp_path: Path) -> None:
    found = settled(tmp_path, replace(asked(), base_image="mirror.test/debian:13"), None)
    assert found.changes[0].after == f'{NEW}agents: [{FIRST}]\nbase_image: "mirror.test/debian:13"\n'
    assert found.base_image == "mirror.test/debian:13"
    with pytest.raises(UserError) as error:
        settled(tmp_path, replace(asked(), base_image="a b"), None)
    assert str(error.value) == "--base-image: not an image: 'a b'; write `NAME:TAG` or `REGISTRY/NAME:TAG`"


def test_reads_the_dockerfile_beside_the_project_file(tmp_path: Path) -> None:
    write(tmp_path, "dockerfile: Dockerfile\n")
    with pytest.raises(UserError) as error:
        settled(tmp_path, asked(), None)
    what = "`dockerfile` names a file that does not exist: .devcontainer/Dockerfile"
    assert str(error.value) == f"{PROJECT_FILE}:1:13: {what}"
    (tmp_path / PROJECT_FILE).with_name("Dockerfile").write_text("FROM ${AGENT_SANDBOX_BASE}\n")
    assert settled(tmp_path, asked(), None).added.build_file == "FROM ${AGENT_SANDBOX_BASE}\n"


def test_an_invalid_file_is_reported_by_its_line(tmp_path: Path) -> None:
    write(tmp_path, "agents: [nobody-knows]\n")
    with pytest.raises(UserError) as error:
        settled(tmp_path, asked(memory="4g"), None)
    assert str(error.value).startswith(f"{tmp_path / PROJECT_FILE}:1:10: unknown agent 'nobody-knows'; ")


@each(
    ("text", "expected"),
    [
        ("", "limits:\n  memory: 4g\n"),
        ("limits:\n  cpus: 2 # c\n\n# end\n", "limits:\n  cpus: 2 # c\n  memory: 4g\n\n# end\n"),
        ("limits: {memory: 1g} # c\n", "limits: {memory: 4g} # c\n"),
        (NEW, f"{NEW}limits:\n  memory: 4g\n"),
    ],
)
def test_sets_a_key_and_keeps_every_other_character(text: str, expected: str) -> None:
    assert set_keys(text, MEMORY, file="f") == expected


def test_sets_several_keys() -> None:
    text = set_keys("# c\n", {("agents",): ["a", "b"], ("ide",): "none", ("limits", "cpus"): "1.5"}, file="f")
    assert text == "# c\nagents: [a, b]\nide: none\nlimits:\n  cpus: 1.5\n"


def test_adds_only_packages_that_are_missing() -> None:
    assert add_packages("packages: [aa]\n", ("aa", "g++"), file="f") == 'packages: [aa, "g++"]\n'
    assert add_packages("", ("aa", "bb"), file="f") == "packages:\n  - aa\n  - bb\n"


def test_a_new_file_is_valid() -> None:
    assert parse_project_file(NEW, file="f").version == 1


def test_rejects_a_value_that_cannot_be_edited_automatically() -> None:
    with pytest.raises(UserError) as error:
        set_keys("name: |-\n  a\nversion: 1\n", {("name",): "b"}, file="f")
    assert str(error.value) == "f: cannot set `name` in this file automatically; write `name: b` by hand"


def test_reports_the_problem_of_an_invalid_file() -> None:
    with pytest.raises(UserError) as error:
        set_keys("limit: {}\n", MEMORY, file="f")
    assert str(error.value) == "f:1:1: unknown key 'limit'; did you mean `limits`?"
