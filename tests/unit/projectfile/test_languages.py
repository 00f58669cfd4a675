import pytest

from agent_sandbox.detect import MANIFESTS
from agent_sandbox.problems import UserError
from agent_sandbox.projectfile.languages import LANGUAGES, packages_of
from agent_sandbox.projectfile.parsing import parse_project_file


def test_the_packages_of_each_language_are_valid_in_the_project_file() -> None:
    names = packages_of(",".join(LANGUAGES))
    assert parse_project_file(f"packages: [{', '.join(names)}]", file="f").packages == names


def test_each_service_that_files_show_is_a_language() -> None:
    assert {*MANIFESTS} <= {*LANGUAGES}


def test_an_unknown_language_is_named_with_the_known_ones() -> None:
    with pytest.raises(UserError) as error:
        packages_of("node,cobol")
    known = "c, go, java, node, php, python, ruby, rust"
    assert str(error.value) == f"--with: unknown language `cobol`; known: {known}"
