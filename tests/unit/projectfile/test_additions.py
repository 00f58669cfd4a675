import pytest

from agent_sandbox.images import Additions
from agent_sandbox.problems import UserError
from agent_sandbox.projectfile.additions import additions
from agent_sandbox.projectfile.parsing import parse_project_file
from table_tests import each

FROM = "FROM ${AGENT_SANDBOX_BASE}"
FILE = ".devcontainer/sandbox.yaml"


def added(text: str, **files: str) -> Additions:
    return additions(parse_project_file(text, file=FILE), files, file=FILE)


def test_a_project_file_without_packages_adds_nothing() -> None:
    assert added("limits: {memory: 4g}") == Additions()


def test_packages_and_tools_keep_their_order() -> None:
    expected = Additions(packages=("b", "a"), npm=("pnpm@10",), pip=("uv",))
    assert added("packages: [bb, aa]\ntools: {npm: [pnpm@10], pip: [uv]}") == Additions(
        packages=("bb", "aa"), npm=expected.npm, pip=expected.pip
    )


@each(
    "text",
    [
        "FROM ${AGENT_SANDBOX_BASE}\n",
        "FROM debian:trixie-slim AS a\nRUN true\nfrom --platform=linux/amd64 $AGENT_SANDBOX_BASE AS b\n",
    ],
)
def test_accepts_a_dockerfile_whose_last_stage_starts_from_the_agents_image(text: str) -> None:
    assert added("dockerfile: D", D=text).build_file == text


@each(
    "text",
    [
        "",
        "RUN true\n",
        "FROM debian\n",
        "FROM ${AGENT_SANDBOX_BASE} AS a\nFROM debian\n",
        "# FROM ${AGENT_SANDBOX_BASE}\n",
    ],
)
def test_rejects_a_dockerfile_whose_last_stage_starts_from_another_image(text: str) -> None:
    with pytest.raises(UserError) as error:
        added("dockerfile: D", D=text)
    assert str(error.value) == (
        ".devcontainer/D: its last stage does not start from the agents' image; "
        "the agents' image is the base: write `FROM ${AGENT_SANDBOX_BASE}`"
    )


def test_a_missing_dockerfile_is_reported() -> None:
    with pytest.raises(UserError) as error:
        added("dockerfile: D")
    assert str(error.value) == f"{FILE}:1:1: `dockerfile` names a file that does not exist: .devcontainer/D"
