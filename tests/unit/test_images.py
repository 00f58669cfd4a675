import re

import pytest
from msgspec.structs import replace

from agent_sandbox import __version__, images
from agent_sandbox.agents.catalogue import load_manifest
from agent_sandbox.agents.pin import Pin
from agent_sandbox.agents.together import Agents
from agent_sandbox.engines.compose.build_log import expected_steps
from agent_sandbox.filetree import digest
from agent_sandbox.resources import data_root
from agent_sandbox.stack.recorded import Owner

TEMPLATES = data_root() / "templates"
MANIFEST = load_manifest(TEMPLATES, "claude")
AGENTS = Agents((MANIFEST,))
DEV = Owner()
AGENT = images.images_for(AGENTS, Owner())[-1]


def test_lists_the_images_of_a_stack_in_build_order() -> None:
    names = [image.name for image in images.images_for(AGENTS, Owner())]
    assert names == [f"agent-sandbox/{name}:{__version__}" for name in ("proxy", "base", "claude")]


def test_an_image_for_another_owner_has_another_name() -> None:
    assert images.agent_name(("claude",), Owner(uid=501, gid=20)) == f"agent-sandbox/claude:{__version__}-u501-20"


def test_build_arguments_of_the_agent_image_name_its_paths_and_owner() -> None:
    agent = images.images_for(AGENTS, Owner(uid=501, gid=20))[-1]
    assert agent.arguments == {
        "AGENT_NAMES": "claude",
        "AGENT_PATH": "/opt/agents/claude/bin",
        "AGENT_STATE": "/home/dev/.claude",
        "DEV_UID": "501",
        "DEV_GID": "20",
    }


def test_images_on_another_base_image_have_other_names() -> None:
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


def test_the_agent_image_has_an_empty_devcontainer_metadata_label() -> None:
    last = AGENT.context["Dockerfile"].decode().rpartition("\nFROM ")[2]
    assert 'LABEL agent-sandbox.agents=${AGENT_NAMES} devcontainer.metadata=""\n' in last


def with_packages(added: images.Additions, agents: Agents = AGENTS, owner: Owner = DEV) -> tuple[images.Image, ...]:
    """Return the images of a project that adds these: with its packages, and with its agents on top."""
    proxy, base, *others = images.images_for(agents, owner, "", added)
    assert (proxy, base) == images.images_for(agents, owner)[:2]
    assert images.project_images(others[-1], added) == ()
    return tuple(others)


def test_a_project_without_additions_has_the_images_of_its_agents() -> None:
    assert images.images_for(AGENTS, Owner(), "", images.Additions()) == images.images_for(AGENTS, Owner())
    assert images.project_images(AGENT, images.Additions()) == ()


def test_an_update_of_an_agent_and_another_owner_need_no_new_packages() -> None:
    pins = [{}, {"claude": Pin(version="99.0.0")}, {"claude": Pin(version="99.0.1")}]
    agents = [AGENTS.with_pins(pin) for pin in pins] + [Agents((MANIFEST, load_manifest(TEMPLATES, "codex")))]
    variants = [(one, Owner()) for one in agents] + [(AGENTS, Owner(uid=501))]
    made = [with_packages(images.Additions(packages=("tree",)), *variant) for variant in variants]
    assert len({(packages.name, packages.digest) for packages, _ in made}) == 1
    assert len({project.name for _, project in made}) == len(variants)


def test_the_agents_are_built_on_the_packages_with_the_recipe_of_their_own_image() -> None:
    packages, project = with_packages(images.Additions(packages=("tree",)))
    text, plain = (one.context["Dockerfile"].decode() for one in (project, AGENT))
    assert text == plain.replace("\nFROM base AS agent\n", f"\nFROM {packages.name} AS agent\n")
    assert text != plain
    assert replace(project, name=AGENT.name, context=AGENT.context) == AGENT
    assert re.fullmatch("agent-sandbox/project:[0-9a-f]{16}", project.name)
    assert expected_steps(text, "agent") < expected_steps(plain, "agent")


def test_packages_are_built_on_the_base_image_of_the_project() -> None:
    found = images.images_for(AGENTS, Owner(), "mirror.test/debian:13", images.Additions(packages=("tree",)))
    *_, base, packages, project = found
    assert (
        packages.arguments
        == {"SANDBOX_IMAGE": base.name}
        == {"SANDBOX_IMAGE": images.base_name("mirror.test/debian:13")}
    )
    assert project.arguments["BASE_IMAGE"] == "mirror.test/debian:13"
    assert not any(image.follows_base for image in (base, packages, project))
    assert all(image.follows_base for image in with_packages(images.Additions(packages=("tree",))))


def test_tools_run_in_no_step_of_a_build_as_root_and_hide_no_program_of_the_sandbox() -> None:
    packages, project = with_packages(images.Additions(npm=("tree",)))
    assert "ENV" not in packages.context["Dockerfile"].decode()
    before, _, after = project.context["Dockerfile"].decode().partition("ENV PATH=")
    assert after.startswith("${AGENT_PATH}:$PATH:/opt/tools/bin:/home/dev/.local/bin ")
    assert before.rpartition("\nFROM ")[2].count("agent-sandbox/packages /tmp/apt") == 1


def test_restores_the_programs_of_the_sandbox_and_closes_the_files_after_the_packages() -> None:
    packages, _ = with_packages(images.Additions(packages=("tree",)))
    last = packages.context["Dockerfile"].decode().partition("\nFROM browser AS packages\n")[2]
    restored, closed = (
        last.index(line)
        for line in (
            "\nCOPY --from=sandbox /usr/local/lib/agent-sandbox /usr/local/lib/agent-sandbox\n",
            "\nRUN python3 -I /usr/local/lib/agent-sandbox/close.py ",
        )
    )
    assert last.rindex("COPY --from=pip") < restored < closed
    assert packages.target == "packages"


def test_the_tools_of_a_project_do_not_wait_for_its_browser() -> None:
    image, _ = with_packages(images.Additions(browser=("chromium",)))
    text = image.context["Dockerfile"].decode()
    steps = {stage: expected_steps(text, stage) for stage in ("debian", "browser", "npm", "packages")}
    other = text.replace("RUN /build/install packages /build/browser\n", "")
    waits = [stage for stage in steps if steps[stage] != expected_steps(other, stage)]
    assert waits == ["browser", "packages"]


def test_the_name_of_the_image_with_the_packages_contains_its_digest() -> None:
    added = images.Additions(packages=("golang", "tree"), browser=("chromium",), pip=("uv",))
    image, _ = with_packages(added)
    assert image.name == f"agent-sandbox/packages:{replace(image, name='').digest[:16]}"
    assert (image.target, image.arguments) == ("packages", {"SANDBOX_IMAGE": images.base_name()})
    assert image.registries == ("PIP_INDEX",)
    assert {name: image.context[name] for name in ("apt", "browser", "npm", "pip")} == {
        "apt": b"golang\ntree\n",
        "browser": b"chromium\n",
        "npm": b"",
        "pip": b"uv\n",
    }


def test_a_projects_dockerfile_is_built_between_agent_image_and_project_image() -> None:
    own, image = images.project_images(
        AGENT, images.Additions(build_file="# syntax=evil\nFROM ${AGENT_SANDBOX_BASE}\n")
    )
    assert own.context["Dockerfile"] == b"ARG AGENT_SANDBOX_BASE\n# syntax=evil\nFROM ${AGENT_SANDBOX_BASE}\n"
    assert (own.target, own.arguments) == ("", {"AGENT_SANDBOX_BASE": AGENT.name})
    assert (image.target, image.arguments) == ("project", {"SANDBOX_IMAGE": AGENT.name, "BASE": own.name})
    assert re.fullmatch("agent-sandbox/project:[0-9a-f]{16}", image.name)


def test_the_project_image_has_an_empty_devcontainer_metadata_label() -> None:
    _, image = images.project_images(AGENT, images.Additions(build_file="FROM ${AGENT_SANDBOX_BASE}"))
    last = image.context["Dockerfile"].decode().rpartition("\nFROM ")[2]
    # Empty: with any other text, editors would ignore most of devcontainer.json.
    assert 'LABEL devcontainer.metadata=""\n' in last


def test_every_input_of_a_project_image_changes_its_name() -> None:
    one = images.Additions(packages=("tree",))
    variants = [
        (*found, *images.project_images(found[-1], added))[-1].name
        for owner in (Owner(), Owner(uid=501))
        for added in (
            one,
            replace(one, packages=("tre", "e")),
            replace(one, npm=("tree",)),
            replace(one, pip=("tree",)),
            replace(one, build_file="FROM $AGENT_SANDBOX_BASE"),
        )
        for found in (images.images_for(AGENTS, owner, "", added),)
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


def test_the_proxy_context_has_only_the_proxys_parts_of_the_package() -> None:
    parts = {path.split("/")[2] for path in images.proxy_context() if path.startswith("package/")}
    assert parts - {"_data", "secrets"} == images.PROXY_PARTS


def test_the_proxy_context_contains_every_part_that_the_proxy_imports() -> None:
    context = images.proxy_context()
    imported = {
        name
        for path, text in context.items()
        if path.endswith(".py")
        for name in re.findall(rb"^\s*(?:from|import) agent_sandbox\.(\w+)", text, re.MULTILINE)
    }
    assert {name.decode() for name in imported} <= {part.removesuffix(".py") for part in images.PROXY_PARTS}


def test_build_contexts_contain_no_caches_and_backup_files() -> None:
    paths = (*images.proxy_context(), *images.agent_context())
    assert [path for path in paths if "__pycache__" in path or path.endswith(("~", ".pyc"))] == []


def test_the_agent_context_contains_the_dockerfile_and_the_start_scripts() -> None:
    assert {"Dockerfile", "entrypoint", "firewall", "lib/rules.sh"} <= images.agent_context().keys()


def test_images_share_the_contexts_that_are_read_once() -> None:
    (proxy, base, agent), (again, *_) = (images.images_for(AGENTS, owner) for owner in (Owner(), Owner(uid=501)))
    assert proxy.context is again.context
    own = {"Dockerfile": agent.context["Dockerfile"], **MANIFEST.build_files()}
    assert agent.context == {**base.context, **own}
    assert proxy.context == images.proxy_context()


@pytest.mark.parametrize("changed", ["context", "target", "arguments"])
def test_the_digest_depends_on_context_target_and_arguments(changed: str) -> None:
    first = images.Image(name="a", target="t", context={"f": b"1"}, arguments={"K": "1"})
    others = {
        "context": images.Image(name="a", target="t", context={"f": b"2"}, arguments={"K": "1"}),
        "target": images.Image(name="a", target="u", context={"f": b"1"}, arguments={"K": "1"}),
        "arguments": images.Image(name="a", target="t", context={"f": b"1"}, arguments={"K": "2"}),
    }
    assert first.digest != others[changed].digest


def test_a_context_file_cannot_imitate_the_recipe_in_the_digest() -> None:
    plain = images.Image(name="a", target="t", context={})
    forged = images.Image(name="a", target="u", context={"recipe": b"t"})
    assert plain.digest != forged.digest


def test_the_same_context_has_the_same_digest() -> None:
    assert digest(images.proxy_context()) == digest(images.proxy_context())


def stages(*agents: str) -> list[str]:
    """Return the lines of the Dockerfile that depend on these agents."""
    manifests = tuple(load_manifest(data_root() / "templates", agent) for agent in agents)
    text = images.images_for(Agents(manifests), Owner())[-1].context["Dockerfile"].decode()
    return [line for line in text.splitlines() if re.match("(FROM|COPY).*install-", line) and "/build/" not in line]


def test_installs_each_agent_of_an_image_in_a_separate_stage() -> None:
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


def test_no_dockerfile_contains_an_unreplaced_placeholder() -> None:
    for image in images.images_for(AGENTS, Owner()):
        assert b"@AGENT@" not in image.context["Dockerfile"]
        assert b"@INSTALL@" not in image.context["Dockerfile"]
