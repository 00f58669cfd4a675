from msgspec.structs import replace

from agent_sandbox.render.paths import PATHS
from agent_sandbox.render.policy import Offered
from agent_sandbox.render.project import reconcile, render_project
from agent_sandbox.render.reconcile import OnConflict, Verdict
from sample_project import AGENTS, TEMPLATES, WORKSPACE, stack_of

RENDERED = render_project(TEMPLATES, stack_of(), AGENTS, WORKSPACE, Offered(), stack_file="services: {}\n")
NOTHING: dict[str, str | None] = dict.fromkeys(PATHS)


def test_writes_all_files_in_an_empty_project() -> None:
    changes = reconcile(RENDERED, NOTHING)
    assert {change.path: change.verdict for change in changes} == {
        ".devcontainer/docker-compose.yml": Verdict.WRITTEN,
        ".devcontainer/devcontainer.json": Verdict.WRITTEN,
        ".devcontainer/policy.yaml": Verdict.WRITTEN,
        ".devcontainer/compose.yaml": Verdict.WRITTEN,
        ".devcontainer/.gitignore": Verdict.WRITTEN,
        ".devcontainer/.env": Verdict.WRITTEN,
        ".env": Verdict.WRITTEN,
    }


def test_without_dotenv_writes_the_other_files_and_removes_our_lines_from_dotenv() -> None:
    workspace = replace(WORKSPACE, dotenv=False)
    rendered = render_project(TEMPLATES, stack_of(workspace), AGENTS, workspace, Offered(), stack_file="services: {}\n")
    files = [*PATHS[:-1]]
    assert [change.path for change in reconcile(rendered, NOTHING)] == files
    assert [change.path for change in reconcile(rendered, {**NOTHING, ".env": "A=1\n"})] == files
    *_, cleared = reconcile(rendered, {**NOTHING, ".env": f"A=1\nCOMPOSE_PROJECT_NAME={stack_of().name}\n"})
    assert (cleared.path, cleared.verdict, cleared.after) == (".env", Verdict.UPDATED, "A=1\n")


def test_changes_nothing_the_second_time() -> None:
    present = {change.path: change.after for change in reconcile(RENDERED, NOTHING)}
    assert {change.verdict for change in reconcile(RENDERED, present)} == {Verdict.UNCHANGED}


def test_dotenv_names_the_compose_file_and_the_stack() -> None:
    assert RENDERED.variables == {
        "COMPOSE_FILE": ".devcontainer/docker-compose.yml",
        "COMPOSE_PROJECT_NAME": stack_of().name,
    }


def test_force_replaces_all_but_the_policy() -> None:
    present: dict[str, str | None] = {
        **NOTHING,
        ".devcontainer/docker-compose.yml": "theirs\n",
        ".devcontainer/policy.yaml": "theirs\n",
    }
    changes = {change.path: change for change in reconcile(RENDERED, present, on_conflict=OnConflict.REPLACE)}
    assert changes[".devcontainer/docker-compose.yml"].verdict is Verdict.REPLACED
    assert changes[".devcontainer/policy.yaml"].after == "theirs\n"
