import pytest

from agent_sandbox.policytools.edit.value import Simple
from agent_sandbox.problems import UserError
from agent_sandbox.projectfile.editing import NEW, Key, add_packages, set_keys
from agent_sandbox.projectfile.parsing import parse_project_file
from table_tests import each

MEMORY: dict[Key, Simple] = {("limits", "memory"): "4g"}


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
