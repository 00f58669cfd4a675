from typing import Any

import yaml
from msgspec.structs import replace

from agent_sandbox.project.render.formats.foreign import load_foreign
from agent_sandbox.project.render.formats.header import stamped
from agent_sandbox.project.render.record import Choices, parse_choices
from agent_sandbox.project.render.shared import NAME, odd_keys, render_shared, shared_document
from agent_sandbox.stack.limits import DEFAULT, limits
from agent_sandbox.stack.recorded import Ide, Owner
from agent_sandbox.stack.workspace import Identity
from sample_project import TEMPLATES, WORKSPACE
from table_tests import each

RENDERED = render_shared(TEMPLATES, ("claude",), WORKSPACE)
RECORD = {"agent": "claude", "ide": "vscode"}


def test_the_shared_file_includes_the_stack_file_and_takes_its_name_from_the_environment() -> None:
    assert yaml.safe_load(RENDERED) == {
        "name": "${AGENT_SANDBOX_STACK:?this clone has no sandbox yet: run `agent-sandbox up` in the project}",
        "x-agent-sandbox": RECORD,
        "include": ["docker-compose.yml"],
    }


def test_the_shared_file_does_not_depend_on_the_machine_the_user_or_the_directory() -> None:
    other = replace(
        WORKSPACE,
        path="/srv/elsewhere",
        title="elsewhere",
        owner=Owner(uid=501, gid=20),
        identity=Identity(name="Ann", email="ann@example.com"),
        dotfiles="/Users/ann/dotfiles",
        shell_d=None,
        layers={"user": "/Users/ann/.config/agent-sandbox"},
        protected=(),
    )
    assert render_shared(TEMPLATES, ("claude",), other) == RENDERED


def test_the_shared_file_records_the_choices() -> None:
    chosen = replace(
        WORKSPACE,
        title="A $5 app",
        is_titled=True,
        ide=Ide.JETBRAINS,
        limits=limits({"memory": "4g"}),
        all_use_dotenv=False,
    )
    text = stamped(render_shared(TEMPLATES, ("copilot", "claude"), chosen), comment="#")
    assert "title: A $$5 app" in text or 'title: "A $$5 app"' in text
    assert parse_choices(text) == Choices(
        agents=("copilot", "claude"), title="A $5 app", ide=Ide.JETBRAINS, limits=limits({"memory": "4g"}), dotenv=False
    )
    usual = Choices(agents=("claude",), title="", ide=Ide.VSCODE, limits=DEFAULT, dotenv=True)
    assert parse_choices(stamped(RENDERED, comment="#")) == usual
    assert parse_choices(RENDERED) is None  # not ours, without the header


OURS = shared_document(("claude",), WORKSPACE)


def test_the_rendered_file_has_no_odd_keys() -> None:
    assert odd_keys(load_foreign(RENDERED, file="x")) == ()
    assert odd_keys({**OURS, "name": NAME.replace("yet", "as of now")}) == ()  # another version's words


@each(
    ("changed", "odd"),
    [
        ({"name": "mine"}, ("name",)),
        ({"name": "${AGENT_SANDBOX_STACK}"}, ("name",)),
        ({"name": "${AGENT_SANDBOX_STACK:-mine}"}, ("name",)),
        ({"name": "${AGENT_SANDBOX_STACK:?${OTHER}}"}, ("name",)),
        ({"name": f"x{NAME}"}, ("name",)),
        ({"include": ["docker-compose.yml", "other.yml"]}, ("include",)),
        ({"include": [{"path": "docker-compose.yml", "project_directory": "/"}]}, ("include",)),
        ({"include": "docker-compose.yml"}, ("include",)),
        ({"include": ["../docker-compose.yml"]}, ("include",)),
        ({"x-agent-sandbox": "claude"}, ("x-agent-sandbox",)),
        ({"services": {}}, ("services",)),
        ({"networks": {"sandbox": {"internal": False}}, "volumes": {}}, ("networks", "volumes")),
        ({"<<": {}}, ("<<",)),
    ],
)
def test_keys_that_change_what_an_editor_starts_are_odd(changed: dict[str, Any], odd: tuple[str, ...]) -> None:
    assert odd_keys({**OURS, **changed}) == odd


@each("document", [None, [], "name", {}])
def test_a_document_that_is_not_a_shared_file_has_all_our_keys_odd(document: object) -> None:
    assert odd_keys(document) == ("name", "x-agent-sandbox", "include")
