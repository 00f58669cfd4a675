import re

import pytest
from msgspec.structs import replace

from agent_sandbox import __version__, images
from agent_sandbox.agents.catalogue import load_manifest
from agent_sandbox.agents.together import Agents
from agent_sandbox.filetree import digest
from agent_sandbox.resources import data_root
from agent_sandbox.stack.recorded import Owner

AGENT = images.images_for(Agents((load_manifest(data_root() / "templates", "claude"),)), Owner())[-1]
MANIFEST = load_manifest(data_root() / "templates", "claude")
AGENTS = Agents((MANIFEST,))


def test_the_images_of_a_stack_come_in_the_order_in_which_they_are_built() -> None:
    names = [image.name for image in images.images_for(AGENTS, Owner())]
    assert names == [f"agent-sandbox/{name}:{__version__}" for name in ("proxy", "base", "claude")]


def test_an_image_for_other_numbers_has_another_name() -> None:
    assert images.agent_name(("claude",), Owner(uid=501, gid=20)) == f"agent-sandbox/claude:{__version__}-u501-20"


def test_the_agents_image_gets_the_paths_of_programs_and_state_and_the_owner() -> None:
    agent = images.images_for(AGENTS, Owner(uid=501, gid=20))[-1]
    assert agent.arguments == {
        "AGENT_NAMES": "claude",
        "AGENT_PATH": "/opt/agents/claude/bin",
        "AGENT_STATE": "/home/dev/.claude",
        "DEV_UID": "501",
        "DEV_GID": "20",
    }


def test_a_base_image_of_a_project_makes_images_with_other_names() -> None:
    plain = images.images_for(AGENTS, Owner())
    found = images.images_for(AGENTS, Owner(), "mirror.test/debian:13")
    assert found[:2] == plain[:2]  # the proxy's, and the firewall's
    named = {image.name: image.arguments.get("BASE_IMAGE") for image in found[2:]}
    suffix = r"-b[0-9a-f]{12}"
    assert [*named.values()] == ["mirror.test/debian:13"] * 2
    for name, expected in zip(named, ("base", "claude"), strict=True):
        assert re.fullmatch(f"agent-sandbox/{expected}:{re.escape(__version__)}{suffix}", name)
    assert not any(image.follows_base for image in found[2:])
    assert found[-1].name != images.images_for(AGENTS, Owner(), "debian:13")[-1].name


def test_editors_take_no_settings_from_the_base_image() -> None:
    last = AGENT.context["Dockerfile"].decode().rpartition("\nFROM ")[2]
    assert 'LABEL agent-sandbox.agents=${AGENT_NAMES} devcontainer.metadata=""\n' in last


def test_a_project_that_adds_nothing_has_no_image_of_its_own() -> None:
    assert images.project_images(AGENT, images.Additions()) == ()


def test_the_image_of_a_project_has_its_digest_in_its_name() -> None:
    (image,) = images.project_images(AGENT, images.Additions(packages=("golang", "tree"), pip=("uv",)))
    assert image.name == f"agent-sandbox/project:{replace(image, name='').digest[:16]}"
    assert (image.target, image.arguments) == ("project", {"AGENT_IMAGE": AGENT.name})
    assert {name: image.context[name] for name in ("apt", "npm", "pip")} == {
        "apt": b"golang\ntree\n",
        "npm": b"",
        "pip": b"uv\n",
    }


def test_a_projects_own_dockerfile_comes_between_the_agents_image_and_ours() -> None:
    own, image = images.project_images(
        AGENT, images.Additions(build_file="# syntax=evil\nFROM ${AGENT_SANDBOX_BASE}\n")
    )
    assert own.context["Dockerfile"] == b"ARG AGENT_SANDBOX_BASE\n# syntax=evil\nFROM ${AGENT_SANDBOX_BASE}\n"
    assert (own.target, own.arguments) == ("", {"AGENT_SANDBOX_BASE": AGENT.name})
    assert image.arguments == {"AGENT_IMAGE": AGENT.name, "BASE": own.name}


def test_editors_take_no_settings_from_the_image_of_a_project() -> None:
    (image,) = images.project_images(AGENT, images.Additions(packages=("tree",)))
    last = image.context["Dockerfile"].decode().rpartition("\nFROM ")[2]
    # Empty: with any other text, editors would ignore most of devcontainer.json.
    assert 'LABEL devcontainer.metadata=""\n' in last


def test_whatever_makes_the_image_of_a_project_changes_its_name() -> None:
    one = images.Additions(packages=("tree",))
    other = replace(AGENT, arguments={**AGENT.arguments, "DEV_UID": "501"})
    variants = [
        images.project_images(agent, added)[-1].name
        for agent in (AGENT, other)
        for added in (
            one,
            replace(one, packages=("tre", "e")),
            replace(one, npm=("tree",)),
            replace(one, pip=("tree",)),
            replace(one, build_file="FROM $AGENT_SANDBOX_BASE"),
        )
    ]
    assert len({*variants}) == len(variants)


def test_proxy_context_contains_dockerfile_policy_engine_and_services() -> None:
    context = images.proxy_context()
    assert {
        "Dockerfile",
        "requirements.txt",
        "package/agent_sandbox/__init__.py",
        "package/agent_sandbox/policy/engine/decide.py",
        "package/agent_sandbox/_data/services/github.yaml",
    } <= context.keys()


def test_the_hosts_part_of_the_package_is_not_in_the_proxy() -> None:
    parts = {path.split("/")[2] for path in images.proxy_context() if path.startswith("package/")}
    assert parts - {"_data", "secrets"} == images.PROXY_PARTS


def test_all_that_the_proxy_imports_of_us_is_in_its_context() -> None:
    context = images.proxy_context()
    imported = {
        name
        for path, text in context.items()
        if path.endswith(".py")
        for name in re.findall(rb"^\s*(?:from|import) agent_sandbox\.(\w+)", text, re.MULTILINE)
    }
    assert {name.decode() for name in imported} <= {part.removesuffix(".py") for part in images.PROXY_PARTS}


def test_no_litter_gets_into_a_context() -> None:
    paths = (*images.proxy_context(), *images.agent_context())
    assert [path for path in paths if "__pycache__" in path or path.endswith(("~", ".pyc"))] == []


def test_the_agents_context_holds_what_boots_it() -> None:
    assert {"Dockerfile", "entrypoint", "firewall", "lib/rules.sh"} <= images.agent_context().keys()


def test_what_images_are_built_from_is_read_once() -> None:
    (proxy, base, agent), (again, *_) = (images.images_for(AGENTS, owner) for owner in (Owner(), Owner(uid=501)))
    assert proxy.context is again.context
    own = {"Dockerfile": agent.context["Dockerfile"], **MANIFEST.build_files()}
    assert agent.context == {**base.context, **own}
    assert proxy.context == images.proxy_context()


@pytest.mark.parametrize("changed", ["context", "target", "arguments"])
def test_the_digest_changes_with_everything_that_goes_into_an_image(changed: str) -> None:
    first = images.Image(name="a", target="t", context={"f": b"1"}, arguments={"K": "1"})
    others = {
        "context": images.Image(name="a", target="t", context={"f": b"2"}, arguments={"K": "1"}),
        "target": images.Image(name="a", target="u", context={"f": b"1"}, arguments={"K": "1"}),
        "arguments": images.Image(name="a", target="t", context={"f": b"1"}, arguments={"K": "2"}),
    }
    assert first.digest != others[changed].digest


def test_a_context_file_can_not_pass_for_the_recipe() -> None:
    plain = images.Image(name="a", target="t", context={})
    forged = images.Image(name="a", target="u", context={"recipe": b"t"})
    assert plain.digest != forged.digest


def test_the_same_context_has_the_same_digest() -> None:
    assert digest(images.proxy_context()) == digest(images.proxy_context())


def stages(*agents: str) -> list[str]:
    """Return the lines of the Dockerfile of these agents that depend on them."""
    manifests = tuple(load_manifest(data_root() / "templates", agent) for agent in agents)
    text = images.images_for(Agents(manifests), Owner())[-1].context["Dockerfile"].decode()
    return [line for line in text.splitlines() if re.match("(FROM|COPY).*install-", line) and "/build/" not in line]


def test_each_agent_of_an_image_is_installed_in_a_stage_of_its_own() -> None:
    assert stages("hermes", "claude") == [
        "FROM npm AS install-claude",
        "FROM pypi AS install-hermes",
        "COPY --from=install-claude /opt/agents/claude /opt/agents/claude",
        "COPY --from=install-hermes /opt/agents/hermes /opt/agents/hermes",
    ]


def test_two_agents_have_the_same_image_in_any_order() -> None:
    manifests = [load_manifest(data_root() / "templates", agent) for agent in ("claude", "codex")]
    one, other = (images.images_for(Agents(tuple(some)), Owner())[-1] for some in (manifests, manifests[::-1]))
    assert (one.name, one.digest) == (other.name, other.digest)
    assert one.name == f"agent-sandbox/claude.codex:{__version__}"
    assert one.arguments["AGENT_STATE"] == "/home/dev/.claude:/home/dev/.codex"
    assert {"agents/claude/recipe", "agents/codex/recipe", "agents/codex/home/.codex/config.toml"} <= one.context.keys()


def test_no_dockerfile_has_a_placeholder_left() -> None:
    for image in images.images_for(AGENTS, Owner()):
        assert b"@AGENT@" not in image.context["Dockerfile"]
        assert b"@INSTALL@" not in image.context["Dockerfile"]
