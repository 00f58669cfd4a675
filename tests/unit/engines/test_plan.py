from pathlib import Path

from agent_sandbox.engines.plan import BuildImage, RemoveImages, RunCommand, describe
from agent_sandbox.engines.verbs import Freshness


def build(freshness: Freshness) -> BuildImage:
    return BuildImage(name="x:1", target="x", labels={}, freshness=freshness, argv=("docker", "build", "-"), context={})


def test_describes_a_plan_as_shell_commands() -> None:
    run = RunCommand(
        argv=("docker", "compose", "--file", "a b.yml", "up"), cwd=Path("/p"), project="p-1", purpose="starting"
    )
    unless = RunCommand(
        argv=("docker", "up"), cwd=Path("/p"), project="p-1", purpose="starting", unless_ready=("docker", "create")
    )
    replaced = RemoveImages(argv=("docker", "image", "prune"), once_built=True)
    expected = (
        "docker build -  # if x:1 is missing or outdated\ndocker build -\ndocker compose --file 'a b.yml' up\n"
        "docker create\ndocker up  # unless all containers are ready\n"
        "docker image prune  # if an image was built"
    )
    assert describe((build(Freshness.OUTDATED), build(Freshness.ALL), run, unless, replaced)) == expected


def test_repr_of_a_build_omits_its_context() -> None:
    assert "context" not in repr(build(Freshness.ALL))
