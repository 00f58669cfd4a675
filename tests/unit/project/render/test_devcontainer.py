import shlex
from typing import Any

import pytest
from msgspec.structs import replace

from agent_sandbox.agents.together import Agents
from agent_sandbox.project.render.devcontainer import (
    DOUBTFUL,
    OPENERS,
    SETTINGS,
    devcontainer_document,
    openers,
    render_devcontainer,
    required_members,
)
from agent_sandbox.project.render.formats.jsonc import parse
from agent_sandbox.stack.containers import ENTER, SETUP
from agent_sandbox.stack.recorded import Ide
from sample_project import AGENTS, MANIFEST, TEMPLATES, WORKSPACE, with_title
from table_tests import each


@each("title", ["app", 'a "b" \\ c', "{{ x }}", "a\nb", "日本", "*/ // x"])
@each("ide", Ide)
def test_the_rendered_file_parses_to_the_document(title: str, ide: Ide) -> None:
    workspace = replace(with_title(title), ide=ide)
    assert parse(render_devcontainer(TEMPLATES, AGENTS, workspace)).values == devcontainer_document(AGENTS, workspace)


def test_the_editor_runs_the_setup_script_after_the_container_is_ready() -> None:
    command = devcontainer_document(AGENTS, replace(WORKSPACE, setup="scripts/a.sh"))["postStartCommand"]
    waiting = shlex.join(devcontainer_document(AGENTS, WORKSPACE)["postStartCommand"])
    assert command == ["sh", "-ec", f"{waiting}; exec {ENTER} {SETUP} scripts/a.sh"]


@each(
    ("ide", "extensions", "expected"),
    [
        (Ide.VSCODE, {}, {"vscode": {"settings": SETTINGS}}),
        (Ide.VSCODE, {"vscode": ("a.b",)}, {"vscode": {"settings": SETTINGS, "extensions": ["a.b"]}}),
        (Ide.JETBRAINS, {"vscode": ("a.b",)}, None),
        (Ide.JETBRAINS, {"jetbrains": ("a.b",)}, {"jetbrains": {"plugins": ["a.b"]}}),
        (Ide.NONE, {"vscode": ("a.b",), "jetbrains": ("a.b",)}, None),
    ],
)
def test_an_editor_gets_its_settings_and_the_agents_extensions(
    ide: Ide, extensions: dict[str, tuple[str, ...]], expected: dict[str, Any] | None
) -> None:
    manifest = MANIFEST.model_copy(update={"editor": extensions})
    assert devcontainer_document(Agents((manifest,)), replace(WORKSPACE, ide=ide)).get("customizations") == expected


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ({}, {"name": "x", "service": "agent", "init": True}),
        ({"service": "agent", "init": True}, {"name": "x"}),
        ({"name": "mine", "service": "web", "init": 1}, {"service": "agent", "init": True}),
    ],
)
def test_required_members_returns_missing_and_different_members(
    present: dict[str, Any], expected: dict[str, Any]
) -> None:
    wanted = {"name": "x", "service": "agent", "init": True}
    assert required_members(wanted, present) == expected


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ("compose.yaml", None),
        ("docker-compose.yml", "compose.yaml"),
        (["docker-compose.yml"], "compose.yaml"),
        (["docker-compose.yml", "db.yml"], ["compose.yaml", "db.yml"]),
        (["compose.yaml", "db.yml"], None),
        (["db.yml", "compose.yaml"], ["compose.yaml", "db.yml"]),
        (["docker-compose.yml", 7], "compose.yaml"),
        (["../compose.yml", "db.yml"], "compose.yaml"),
        ("../compose.yml", "compose.yaml"),
        ({}, "compose.yaml"),
    ],
)
def test_keeps_compose_files_that_the_user_added(present: object, expected: object) -> None:
    wanted = {"dockerComposeFile": "compose.yaml"}
    assert required_members(wanted, {"dockerComposeFile": present}).get("dockerComposeFile") == expected


def test_no_member_is_both_refused_and_reported() -> None:
    assert OPENERS.keys() & DOUBTFUL.keys() == set()


@pytest.mark.parametrize(
    "mount",
    [
        "source=cache,target=/cache,type=volume",
        "src=cache,dst=/cache,readonly",
        "src=logs,dst=/logs",
        "type=tmpfs,target=/scratch",
        {"type": "volume", "source": "cache", "target": "/cache"},
    ],
)
def test_accepts_volumes_of_the_stack_and_tmpfs(mount: object) -> None:
    assert openers({"mounts": [mount]}) == {}


@each(
    "mounts",
    [
        ["source=/var/run/docker.sock,target=/var/run/docker.sock,type=bind"],
        ["source=cache,target=/cache", "source=/,target=/host,type=volume"],
        ["source=${localEnv:HOME},target=/home,type=bind"],
        ["source=../..,target=/up"],
        ["target=/etc:/host"],
        ['"source=/etc",target=/host'],
        ["type=volume,source=cache,target=/cache,volume-opt=device=/etc"],
        [{"type": "bind", "source": "/etc", "target": "/host"}],
        [{"type": "volume", "source": "other_state", "target": "/theirs", "external": True}],
        ["/etc:/host"],
        ["source=state-other,target=/theirs,type=volume"],
        ["source=local-other,target=/theirs,type=volume"],
        ["source=home-cache,target=/theirs,type=volume"],
        ["src=log,dst=/log"],
        [{"type": "volume", "source": "ca-private", "target": "/key"}],
        ["type=volume,source=secrets,target=/secrets"],
        [1],
        "source=/etc,target=/host",
    ],
)
def test_refuses_all_other_mounts(mounts: object) -> None:
    assert openers({"mounts": mounts}) == {"mounts": OPENERS["mounts"]}
