from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_sandbox.engines.compose.render import render_stack_file, stack_document
from agent_sandbox.project.render.formats.faithful import load_yaml
from agent_sandbox.stack.limits import DEFAULT, limits
from agent_sandbox.stack.workspace import Beside, Workspace
from sample_project import AGENTS, TEMPLATES, WORKSPACE, stack_of, with_title
from table_tests import each

AWKWARD = [
    "with space",
    "-dash",
    "it's",
    'say "x"',
    "Grüße 日本",
    "$HOME",
    "${X:-y}",
    "{{ x }}",
    "{% raw %}",
    "a: b # c",
    "a\\b",
    "'",
    "- x",
    "*a",
    "&a",
    "!tag",
    "no",
    "1:20",
    "\u202e",
    "a\tb",
    "x\ny: z",
]


def render(workspace: Workspace = WORKSPACE) -> str:
    return render_stack_file(TEMPLATES, stack_of(workspace), AGENTS, workspace)


def document(workspace: Workspace = WORKSPACE) -> dict[str, Any]:
    return stack_document(stack_of(workspace), workspace)


def test_a_disk_limit_applies_to_the_agent_container_and_its_writable_volumes() -> None:
    bounded = replace(WORKSPACE, limits=limits({"disk": "20g"}))
    said = document(bounded)
    assert load_yaml(render(bounded)) == said
    assert {name for name, one in said["services"].items() if one.get("storage_opt") == {"size": "20g"}} == {"agent"}
    sizes = {key: one.get("driver_opts") for key, one in said["volumes"].items()}
    mounts = said["services"]["agent"]["volumes"]
    written = {one["source"] for one in mounts if one["type"] == "volume" and not one.get("read_only")}
    assert sizes == {key: {"size": "20g"} if key in written else None for key in said["volumes"]}
    assert "driver_opts" not in str(document()["volumes"])


@each("word", AWKWARD)
def test_escapes_special_characters_in_titles_and_paths(word: str) -> None:
    workspace = replace(with_title(word), path=f"/home/{word}", dotfiles=f"/home/{word}/dotfiles")
    assert load_yaml(render(workspace)) == document(workspace)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_the_rendered_file_parses_to_the_stack_document_for_any_title(title: str) -> None:
    workspace = with_title(title)
    assert stack_document(stack_of(workspace), workspace)["x-agent-sandbox"]["title"] == title.replace("$", "$$")
    assert load_yaml(render(workspace)) == document(workspace)


def test_doubles_dollar_signs_to_prevent_interpolation_by_compose() -> None:
    mounts = document(replace(WORKSPACE, dotfiles="/h/$HOME"))["services"]["agent"]["volumes"]
    assert "/h/$$HOME" in [mount["source"] for mount in mounts]


def test_bind_mounts_do_not_create_missing_host_directories() -> None:
    mounts = [mount for service in document()["services"].values() for mount in service["volumes"]]
    assert all(mount["bind"] == {"create_host_path": False} for mount in mounts if mount["type"] == "bind")


def test_sets_pull_policy_never_for_all_sandbox_containers() -> None:
    assert {service["pull_policy"] for service in document()["services"].values()} == {"never"}


WITH_SERVICES = replace(
    WORKSPACE,
    beside=(
        Beside(name="db", image="postgres:17", volumes=(("data", "/data"),), ports=(5432,), limits=DEFAULT),
        Beside(name="own", image="agent-sandbox/beside:1", user="www", limits=DEFAULT, shared_memory=128 << 20),
    ),
)


def test_renders_services_beside_the_sandbox_and_pulls_only_their_images() -> None:
    said = document(WITH_SERVICES)
    assert load_yaml(render(WITH_SERVICES)) == said
    pulled = {name for name, service in said["services"].items() if service["pull_policy"] != "never"}
    assert pulled == {"db"}
    assert (said["services"]["own"]["shm_size"], "shm_size" in said["services"]["db"]) == ("128m", False)
    assert "user" not in said["services"]["db"]  # the image's
    assert said["services"]["db"]["network_mode"] == "service:firewall.db"
    assert said["networks"]["beside"]["internal"]


def test_every_container_drops_all_capabilities_and_cannot_gain_privileges() -> None:
    for service in document(WITH_SERVICES)["services"].values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
