"""Every agent's manifest is valid, its services exist, and its stack renders for every editor and provider."""

import json
import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.agents.fields import VARIABLE
from agent_sandbox.agents.manifest import RESERVED, AgentManifest
from agent_sandbox.agents.together import Agents
from agent_sandbox.engines.renderers import load_renderer
from agent_sandbox.images import agent_name, images_for, proxy_name
from agent_sandbox.policy import compile_policy
from agent_sandbox.policy.engine.decide import decide_with_secrets
from agent_sandbox.policy.file.service_options import Auth
from agent_sandbox.policyfile import parse_layer, shipped_services
from agent_sandbox.policytools.explain.request_line import RequestLine, read_request
from agent_sandbox.project.render.formats.template import Templates
from agent_sandbox.project.render.policy import Offered
from agent_sandbox.project.render.project import Rendered, render_project
from agent_sandbox.resources import data_root
from agent_sandbox.stack.build import StackImages, build_stack
from agent_sandbox.stack.environment import java_environment, proxy_environment, trust_environment
from agent_sandbox.stack.recorded import Ide, Owner
from agent_sandbox.stack.workspace import Workspace
from agent_talks import PROMPT, SILENT, TALKS
from agents_page import texts

FOLDER = data_root() / "templates"
MANIFESTS = [load_manifest(FOLDER, name) for name in known_agents(FOLDER)]
SERVICES = shipped_services()
# Files that `make lock` reads and writes, besides the manifest.
LOCKING = {"requirements.in", "requirements.txt", "overrides.txt", "requirements-3.13.in"}
PARSERS: dict[str, Callable[[str], object]] = {".json": json.loads, ".toml": tomllib.loads, ".yaml": yaml.safe_load}

of_each = pytest.mark.parametrize("manifest", MANIFESTS, ids=[manifest.name for manifest in MANIFESTS])


def render(manifest: AgentManifest, ide: Ide, providers: Sequence[str]) -> Rendered:
    """Render a project as `init` does."""
    workspace = Workspace(path="/home/me/app", title="app", ide=ide)
    images = StackImages(proxy=proxy_name(), agent=agent_name((manifest.name,), workspace.owner))
    agents, templates = Agents((manifest,)), Templates(FOLDER)
    stack = build_stack(agents, workspace, images)
    stack_file = load_renderer()(templates, stack, agents, workspace)
    return render_project(templates, stack, agents, workspace, Offered(), stack_file=stack_file, providers=providers)


@of_each
def test_an_agents_folder_contains_only_its_manifest_and_lock_files(manifest: AgentManifest) -> None:
    files = {path.name for path in (FOLDER / manifest.name).iterdir()}
    assert files - {"agent.yaml"} <= LOCKING
    assert ("requirements.txt" in files) == (f"agents/{manifest.name}/requirements.txt" in manifest.build_files())


@of_each
def test_an_agents_services_and_providers_are_shipped(manifest: AgentManifest) -> None:
    assert {*manifest.services, *manifest.providers} <= set(SERVICES)


@of_each
def test_an_agents_stack_renders_and_policy_loads_for_every_editor_and_provider(manifest: AgentManifest) -> None:
    for ide in Ide:
        for providers in ((), *((one,) for one in manifest.providers)):
            rendered = render(manifest, ide, providers)
            layer = parse_layer(rendered.policy(), name="p", file="p", shown="p", services=SERVICES)
            editor = (ide.value,) if ide is not Ide.NONE else ()
            assert [one.name for one in layer.spec.services] == [*manifest.services, *providers, *editor]


@of_each
def test_an_agents_home_files_are_well_formed_and_stored_in_a_volume(manifest: AgentManifest) -> None:
    for path, text in manifest.unattended.files.items():
        PARSERS[Path(path).suffix](text)
        assert any(path.startswith(f"{state}/") for state in (*manifest.state, ".local"))


@of_each
def test_an_agents_version_command_runs_its_program(manifest: AgentManifest) -> None:
    assert manifest.version_command[0] == manifest.command[0]


@of_each
def test_an_agents_archives_match_its_version_and_their_architecture(manifest: AgentManifest) -> None:
    if archive := manifest.install.archive:
        names = {"amd64": ("amd64", "x86_64", "x64"), "arm64": ("arm64", "aarch64")}
        for architecture, one in archive.downloads.items():
            assert one.url.count(manifest.version) == 2
            for text in (one.url, one.program or archive.program):
                assert any(name in text for name in names[architecture])


@of_each
def test_all_agent_images_have_the_same_base(manifest: AgentManifest) -> None:
    (*below, own), (*others, _) = images_for(Agents((manifest,)), Owner()), images_for(Agents((MANIFESTS[0],)), Owner())
    assert [image.digest for image in below] == [image.digest for image in others]
    assert own.target == "agent"


WORKSPACE = Workspace(path="/home/me/app", title="app", ide=Ide.NONE)
IMAGES = StackImages(proxy="p", agent="a")


def test_every_agent_has_a_conversation_test_or_a_reason_for_none() -> None:
    assert {*TALKS, *SILENT} == {manifest.name for manifest in MANIFESTS}
    assert not TALKS.keys() & SILENT.keys()
    assert [name for name, talks in TALKS.items() for talk in talks if PROMPT not in talk.words] == []
    for manifest in MANIFESTS:
        tried = {talk.service for talk in TALKS.get(manifest.name, ())}
        assert manifest.name in SILENT or tried == {*(manifest.providers or manifest.services)}


KEYED = {
    name: [
        (service, option, auth)
        for service in (*load_manifest(FOLDER, name).services, *load_manifest(FOLDER, name).providers)
        for option, auth in SERVICES[service].spec.declared.items()
        if isinstance(auth, Auth) and option == "secret"
    ]
    for name in known_agents(FOLDER)
}


def test_every_agent_has_a_service_with_an_injected_key() -> None:
    assert [name for name, keyed in KEYED.items() if not keyed] == []


def test_the_key_of_an_agents_service_is_injected_at_its_host_in_place_of_a_placeholder() -> None:
    for service, option, auth in {each[0]: each for keyed in KEYED.values() for each in keyed}.values():
        text = f"services: [{{name: {service}, {option}: the.key}}]\n"
        policy = compile_policy([parse_layer(text, name="p", file="p", shown="p", services=SERVICES)], SERVICES)
        request = read_request(policy, RequestLine(method="GET", url=f"https://{auth.host}{auth.test}"))
        decision, injected = decide_with_secrets(policy, request)
        (credential,) = injected.credentials if injected else ()
        assert (decision.allowed, credential.secret, credential.header) == (True, "the.key", auth.header), service
        assert (credential.env, credential.prefix) == (auth.env, auth.prefix), service
        assert auth.env, service


def test_a_manifest_cannot_set_variables_of_the_proxy_or_the_trust_store() -> None:
    mine = {*proxy_environment("192.0.2.1"), *trust_environment(), *java_environment("192.0.2.1")}
    said = {name for name in mine if VARIABLE.fullmatch(name)}
    assert {name for name in said if not RESERVED.fullmatch(name)} == set()


def test_no_two_agents_keep_their_state_in_the_same_volume() -> None:
    keys = [volume.name for one in MANIFESTS for volume in build_stack(Agents((one,)), WORKSPACE, IMAGES).volumes]
    own = [key for key in keys if "_state-" in key or "_local-" in key]
    assert len(own) == len(set(own))


def test_the_lists_of_agents_are_up_to_date() -> None:
    outdated = [page.name for page, text in texts().items() if page.read_text("utf-8") != text]
    assert outdated == [], "run `make golden`"


def test_no_copied_settings_key_names_a_program_or_a_credential() -> None:
    keys = {key for one in MANIFESTS for names in one.settings.keys.values() for key in names}
    doubtful = re.compile(
        r"hook|mcp|helper|command|script|notify|key|token|secret|env|permission|plugin|url|status", re.IGNORECASE
    )
    assert {key for key in keys if doubtful.search(key)} == set()
    files = {Path(path) for one in MANIFESTS for path in one.settings.files}
    assert {file for file in files if file.suffix not in {"", ".md"}} == set()


def test_lock_files_contain_no_urls() -> None:
    locks = [*FOLDER.glob("*/requirements*"), *FOLDER.glob("*/overrides.txt")]
    assert [path.name for path in locks if "://" in path.read_text()] == []


def test_codex_runs_commands_without_its_own_sandbox_however_it_is_started() -> None:
    """Its sandbox needs a user namespace, which the container refuses."""
    files = load_manifest(data_root() / "templates", "codex").unattended.files
    assert tomllib.loads(files[".codex/config.toml"])["sandbox_mode"] == "danger-full-access"
