import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.backends.compose.plan import COPY_CACHE, ComposePlanner
from agent_sandbox.backends.plan import BuildImage, RemoveImages, RunCommand
from agent_sandbox.backends.project import Project
from agent_sandbox.backends.verbs import (
    AskImage,
    Build,
    Cache,
    CopyCache,
    CopySecrets,
    Create,
    Destroy,
    Down,
    Follow,
    Freshness,
    InClone,
    Logs,
    Restart,
    Up,
    Verb,
)
from agent_sandbox.images import Image
from agent_sandbox.stack.recorded import Owner
from table_tests import each

PLANNER = ComposePlanner()
ROOT = Path("/home/ann/my project")
PROJECT = Project(
    root=ROOT,
    name="my-project-0123abcd",
    agents=("example",),
    owner=Owner(),
    images=("agent-sandbox/proxy:1", "agent-sandbox/example:1"),
    files=(ROOT / ".devcontainer" / "docker-compose.yml",),
)
COMPOSE = (
    *("docker", "compose", "--project-name", "my-project-0123abcd"),
    *("--project-directory", ".devcontainer", "--env-file", "/dev/null"),
    *("--file", ".devcontainer/docker-compose.yml"),
)
IMAGE = Image(
    name="agent-sandbox/example:1",
    target="agent",
    context={"Dockerfile": b"FROM scratch AS agent\n"},
    arguments={"DEV_UID": "501", "AGENT_NAME": "example"},
    follows_base=False,
)
BUILD_ARGV = (
    *("docker", "build", "--progress", "plain", "--load", "--tag", "agent-sandbox/example:1", "--target", "agent"),
    *("--label", f"agent-sandbox.digest={IMAGE.digest}"),
    *("--build-arg", "AGENT_NAME=example", "--build-arg", "DEV_UID=501"),
)


def test_build_reads_its_context_from_stdin_and_labels_the_image_with_its_digest() -> None:
    expected = BuildImage(
        name="agent-sandbox/example:1",
        target="agent",
        labels={"agent-sandbox.digest": IMAGE.digest},
        freshness=Freshness.OUTDATED,
        argv=(*BUILD_ARGV, "-"),
        environment={"DOCKER_BUILDKIT": "1"},
        context=IMAGE.context,
    )
    assert PLANNER.build(Build(images=(IMAGE,)))[:1] == (expected,)


def test_every_option_of_a_build_becomes_an_argument() -> None:
    verb = Build(
        images=(replace(IMAGE, follows_base=True),),
        freshness=Freshness.ALL,
        cache=Cache.IGNORE,
        base_image="registry.example.com/debian:trixie-slim",
        extra_ca=Path("/etc/ssl/company.pem"),
    )
    step, _ = PLANNER.build(verb)
    at = BUILD_ARGV.index("--build-arg")
    expected = (
        *BUILD_ARGV[:at],
        *("--label", "agent-sandbox.base=registry.example.com/debian:trixie-slim"),
        *BUILD_ARGV[at:],
        *("--build-arg", "BASE_IMAGE=registry.example.com/debian:trixie-slim"),
        *("--secret", "id=extra_ca,src=/etc/ssl/company.pem", "--no-cache", "-"),
    )
    assert step.argv == expected


def test_labels_an_image_on_plain_debian_with_an_empty_base_image() -> None:
    step, _ = PLANNER.build(Build(images=(replace(IMAGE, follows_base=True),)))
    assert isinstance(step, BuildImage)
    assert step.labels == {"agent-sandbox.base": "", "agent-sandbox.digest": IMAGE.digest}


def test_ignores_the_base_image_option_for_images_that_do_not_follow_it() -> None:
    step, _ = PLANNER.build(Build(images=(IMAGE,), base_image="mine"))
    assert step == PLANNER.build(Build(images=(IMAGE,)))[0]


def test_passes_an_image_only_the_registries_that_it_declares() -> None:
    found = {"PIP_INDEX": "https://pypi.test", "NPM_REGISTRY": "https://npm.test"}
    image = replace(IMAGE, registries=("PIP_INDEX",))
    step, _ = PLANNER.build(Build(images=(image,), registries=found))
    assert isinstance(step, BuildImage)
    assert step.argv == (*BUILD_ARGV, "--build-arg", "PIP_INDEX=https://pypi.test", "-")
    assert image.digest == IMAGE.digest


def test_passes_no_target_option_for_an_image_without_a_target() -> None:
    step, _ = PLANNER.build(Build(images=(replace(IMAGE, target=""),)))
    assert isinstance(step, BuildImage)
    assert "--target" not in step.argv


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a b/ca.pem", "id=extra_ca,src=/a b/ca.pem"),
        ("/a,b/ca.pem", 'id=extra_ca,"src=/a,b/ca.pem"'),
        ('/a"b/ca.pem', 'id=extra_ca,"src=/a""b/ca.pem"'),
    ],
)
def test_quotes_the_path_of_a_ca_certificate_in_the_secret_option(path: str, expected: str) -> None:
    step, _ = PLANNER.build(Build(images=(IMAGE,), extra_ca=Path(path)))
    assert step.argv[step.argv.index("--secret") + 1] == expected


def test_up_builds_first_and_never_lets_compose_build() -> None:
    build = Build(images=(IMAGE,))
    start = RunCommand(
        argv=(*COMPOSE, "up", "--detach", "--no-build", "--remove-orphans", "--wait", "--wait-timeout", "120"),
        cwd=ROOT,
        project=PROJECT.name,
        purpose="starting the stack",
    )
    *images, replaced = PLANNER.build(build)
    label = ("--filter", "label=agent-sandbox.digest")
    assert replaced == RemoveImages(argv=("docker", "image", "prune", "--force", *label), once_built=True)
    assert PLANNER.plan(PROJECT, Up(build=build)) == (*images, start, replaced)
    removed = replace(start, argv=(*COMPOSE, "rm", "--stop", "--force", "agent"), purpose="removing agent")
    assert PLANNER.plan(PROJECT, Up(build=build, anew=("agent",))) == (*images, removed, start, replaced)
    create = (*COMPOSE, "create", "--no-build", "--remove-orphans")
    unless = replace(start, unless_ready=create)
    assert PLANNER.plan(PROJECT, Up(build=build, ready=True)) == (*images, unless, replaced)
    alone = replace(start, argv=(*COMPOSE, "up", "--detach", "--no-build", "--wait", "--wait-timeout", "120", "agent"))
    assert PLANNER.plan(PROJECT, Up(build=build, only=("agent",))) == (*images, alone, replaced)


def test_destroy_also_removes_volumes_that_no_compose_file_names() -> None:
    down = RunCommand(
        argv=(*COMPOSE, "down", "--remove-orphans", "--volumes"),
        cwd=ROOT,
        project=PROJECT.name,
        purpose="removing the stack",
    )
    label = f"label=com.docker.compose.project={PROJECT.name}"
    argv = ("docker", "volume", "prune", "--all", "--force", "--filter", label)
    left = replace(down, argv=argv, purpose="removing what is left")
    assert PLANNER.plan(PROJECT, Destroy()) == (down, left)


def test_destroy_removes_the_given_images() -> None:
    *before, first, second = PLANNER.plan(PROJECT, Destroy(images=("a:1", "b:1")))
    assert (*before,) == PLANNER.plan(PROJECT, Destroy())
    removed = [RemoveImages(argv=("docker", "image", "rm", name), once_built=False) for name in ("a:1", "b:1")]
    assert [first, second] == removed


@each(
    ("verb", "arguments", "purpose"),
    [
        (Down(), ("down", "--remove-orphans"), "stopping the stack"),
        (Logs(), ("logs", "--no-color"), "reading the logs"),
        (
            Logs(services=("proxy",), follow=Follow.WAIT, tail=20),
            ("logs", "--no-color", "--follow", "--tail", "20", "proxy"),
            "reading the logs",
        ),
    ],
)
def test_a_verb_becomes_one_compose_command(verb: Verb, arguments: tuple[str, ...], purpose: str) -> None:
    expected = RunCommand(argv=(*COMPOSE, *arguments), cwd=ROOT, project=PROJECT.name, purpose=purpose)
    assert PLANNER.plan(PROJECT, verb) == (expected,)


def test_names_files_outside_the_project_by_absolute_path() -> None:
    project = replace(PROJECT, files=(*PROJECT.files, Path("/elsewhere/more.yml")))
    assert PLANNER.compose_argv(project) == (*COMPOSE, "--file", "/elsewhere/more.yml")


def test_restart_waits_until_the_container_is_ready() -> None:
    again = ("up", "--detach", "--no-build", "--no-deps", "--no-recreate", "--wait", "--wait-timeout", "120", "proxy")
    assert [step.argv for step in PLANNER.plan(PROJECT, Restart(service="proxy"))] == [
        (*COMPOSE, "restart", "proxy"),
        (*COMPOSE, *again),
    ]


def test_passes_no_file_option_for_a_project_without_known_files() -> None:
    assert PLANNER.compose_argv(replace(PROJECT, files=())) == COMPOSE[:-2]


def test_asks_an_image_in_a_read_only_container_without_network_or_capabilities() -> None:
    (step,) = PLANNER.plan(PROJECT, AskImage(image="image:1", argv=("npm", "config", "get", "registry")))
    assert step.argv == (
        *("docker", "run", "--rm", "--pull", "never", "--network", "none", "--read-only", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges", "--env", "HOME=/nonexistent", "--user", "65534:65534"),
        *("--entrypoint", "npm", "image:1", "config", "get", "registry"),
    )


def test_mounts_volumes_read_only_and_limits_resources_when_asking_an_image() -> None:
    asked = AskImage(
        image="image:1", argv=("count", "x"), volumes={"/state/a": "app_a"}, user="501:20", home="/run/home"
    )
    (step,) = PLANNER.plan(PROJECT, asked)
    assert step.argv[12:] == (
        *("--env", "HOME=/nonexistent", "--user", "501:20", "--env", "HOME=/run/home"),
        *("--tmpfs", "/run/home:size=512m,mode=1777", "--init", "--memory", "1g", "--pids-limit", "128"),
        *("--mount", "type=volume,source=app_a,target=/state/a,readonly,volume-nocopy"),
        *("--entrypoint", "count", "image:1", "x"),
    )


def test_clone_commands_run_without_network_and_write_only_on_request() -> None:
    argv = ("sh", "-c", "git status")
    (step,) = PLANNER.plan(PROJECT, InClone(image="image:1", argv=argv))
    volume = "type=volume,source=my-project-0123abcd_workspace,target=/workspace"
    assert step.argv == (
        *("docker", "run", "--interactive", "--rm", "--pull", "never", "--network", "none", "--read-only"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--env", "HOME=/nonexistent"),
        *("--user", "1000:1000", "--mount", f"{volume},readonly", "--memory", "4g", "--memory-swap", "4g"),
        *("--pids-limit", "256", "--workdir", "/workspace", "--init"),
        *("--tmpfs", "/tmp:size=64m,mode=1777"),  # noqa: S108 - a container's
        *("--entrypoint", "sh", "image:1", "-c", "git status"),
    )
    (step,) = PLANNER.plan(PROJECT, InClone(image="image:1", argv=argv, writes=True))
    assert volume in step.argv


def test_copies_secrets_between_volumes_in_a_container_without_network() -> None:
    (step,) = PLANNER.plan(PROJECT, CopySecrets(image="proxy:1", source="other_secrets"))
    assert step.argv == (
        *("docker", "run", "--rm", "--pull", "never", "--network", "none", "--read-only", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges", "--env", "HOME=/nonexistent", "--user", "10001:10001"),
        *("--mount", "type=volume,source=other_secrets,target=/from,readonly"),
        *("--mount", "type=volume,source=my-project-0123abcd_secrets,target=/to"),
        *("--entrypoint", "cp", "proxy:1", "--archive", "/from/.", "/to/"),
    )


def test_copies_caches_between_volumes_as_the_agents_user_without_network() -> None:
    (step,) = PLANNER.plan(PROJECT, CopyCache(image="image:1", source="other_setup-cache", target="mine_home-cache"))
    label = "volume-label=com.docker.compose.project=my-project-0123abcd"
    assert step.argv == (
        *("docker", "run", "--rm", "--pull", "never", "--network", "none", "--read-only", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges", "--env", "HOME=/nonexistent", "--user", "1000:1000"),
        *("--mount", "type=volume,source=other_setup-cache,target=/from,readonly,volume-nocopy"),
        *("--mount", f"type=volume,source=mine_home-cache,target=/home/dev/.cache,{label}"),
        *("--workdir", "/home/dev/.cache", "--init", "--memory", "1g", "--pids-limit", "128"),
        *("--entrypoint", "/bin/sh", "image:1", "-c", COPY_CACHE),
    )


def test_copying_a_cache_replaces_the_target_even_if_it_is_read_only(tmp_path: Path) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    for folder, name in ((source, "new"), (target, "old")):
        (folder / "mod").mkdir(parents=True)
        (folder / "mod" / name).write_text(name)
        (folder / "mod").chmod(0o555)
    script = COPY_CACHE.replace("/from", str(source))
    subprocess.run(["sh", "-c", script], cwd=target, check=True, timeout=30)
    assert [path.name for path in (target / "mod").iterdir()] == ["new"]
    assert subprocess.run(["sh", "-c", script.replace("4096", "0")], cwd=target, check=False).returncode == 1
    assert [path.name for path in (target / "mod").iterdir()] == ["new"]


def test_a_stack_is_created_without_starting_or_building_anything() -> None:
    (step,) = PLANNER.plan(PROJECT, Create())
    assert step.argv == (*COMPOSE, "create", "--no-build", "--remove-orphans")
