from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.engines.compose.plan import ComposePlanner
from agent_sandbox.engines.plan import BuildImage, RemoveImages, RunCommand
from agent_sandbox.engines.verbs import (
    Build,
    Cache,
    Create,
    Destroy,
    Down,
    Freshness,
    Restart,
    Resume,
    Stop,
    Up,
)
from agent_sandbox.images import Image
from agent_sandbox.project.project import Project
from agent_sandbox.stack.recorded import Owner

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


def test_down_stops_everything() -> None:
    (step,) = PLANNER.plan(PROJECT, Down())
    assert step == RunCommand(
        argv=(*COMPOSE, "down", "--remove-orphans"), cwd=ROOT, project=PROJECT.name, purpose="stopping the stack"
    )


def test_names_files_outside_the_project_by_absolute_path() -> None:
    project = replace(PROJECT, files=(*PROJECT.files, Path("/elsewhere/more.yml")))
    assert PLANNER.compose_argv(project) == (*COMPOSE, "--file", "/elsewhere/more.yml")


def test_restart_waits_until_the_container_is_ready() -> None:
    again = ("up", "--detach", "--no-build", "--no-deps", "--no-recreate", "--wait", "--wait-timeout", "120", "proxy")
    assert [step.argv for step in PLANNER.plan(PROJECT, Restart(service="proxy"))] == [
        (*COMPOSE, "restart", "proxy"),
        (*COMPOSE, *again),
    ]


def test_stops_a_container_with_a_timeout_of_two_seconds_and_unpauses_containers() -> None:
    stop, resume = Stop(service="agent", container="a1"), Resume(containers=("a1", "f2"))
    steps = [step for verb in (stop, resume) for step in PLANNER.plan(PROJECT, verb)]
    assert steps == [
        RunCommand(argv=("docker", *words), cwd=ROOT, project=PROJECT.name, purpose=purpose)
        for words, purpose in (
            (("stop", "--time", "2", "a1"), "stopping the agent"),
            (("unpause", "a1", "f2"), "unpausing the stack"),
        )
    ]


def test_passes_no_file_option_for_a_project_without_known_files() -> None:
    assert PLANNER.compose_argv(replace(PROJECT, files=())) == COMPOSE[:-2]


def test_a_stack_is_created_without_starting_or_building_anything() -> None:
    (step,) = PLANNER.plan(PROJECT, Create())
    assert step.argv == (*COMPOSE, "create", "--no-build", "--remove-orphans")
