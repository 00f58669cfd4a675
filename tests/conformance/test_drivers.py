"""What every driver must do, on a fake engine, and on a real engine if there is one."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_sandbox.engines.container import Container, Intruders
from agent_sandbox.engines.drivers import DRIVERS, load_driver
from agent_sandbox.engines.events import Event, Finished, Progressed, Started, Unneeded
from agent_sandbox.engines.place import Role
from agent_sandbox.engines.plan import RemoveImages, RunCommand
from agent_sandbox.engines.protocol import Machine, Stage
from agent_sandbox.engines.result import CheckResult
from agent_sandbox.engines.verbs import Build, Down, Restart, Resume, Stop, Up, Verb
from agent_sandbox.problems import Problem, UserError
from driver_worlds import World
from engine import run

RUNNING = {"proxy": "healthy", "firewall": "healthy", "agent": "healthy"}


def states(found: Sequence[Container]) -> dict[str, str]:
    return {container.service: container.state for container in found}


def agent_of(world: World) -> Container:
    (found,) = world.driver.observe(world.project.name, "agent")
    assert found in world.driver.observe(world.project.name)
    return found


def done(world: World, verb: Verb) -> list[Event]:
    """Execute a request, and return the events, without what the engine printed."""
    events: list[Event] = []
    world.driver.execute(world.driver.planner.plan(world.project, verb), tell=events.append)
    return [event for event in events if not isinstance(event, Progressed)]


def failing(world: World) -> RunCommand:
    """Return a step whose command fails."""
    (step,) = world.driver.planner.plan(world.project, Down())
    assert isinstance(step, RunCommand)
    argv = (*step.argv[:-2], "fail")
    return RunCommand(argv=argv, cwd=world.project.root, project=world.project.name, purpose="failing")


def test_a_project_that_is_down_has_no_containers_or_leftovers(world: World) -> None:
    driver, name = world.driver, world.project.name
    assert (driver.observe(name), any(driver.leftovers(name).values())) == ((), False)
    assert driver.intruders((), name) == Intruders()


def test_observes_only_the_containers_that_exist(world: World) -> None:
    world.have(proxy="healthy")
    assert states(world.driver.observe(world.project.name)) == {"proxy": "running"}


def test_observes_a_running_stack_as_ready_in_start_order(world: World) -> None:
    world.have(**RUNNING)
    found = world.driver.observe(world.project.name)
    assert [(one.service, one.ready) for one in found] == [("proxy", True), ("firewall", True), ("agent", True)]
    assert world.driver.intruders(found, world.project.name) == Intruders()


def test_a_stopped_container_is_not_ready(world: World) -> None:
    world.have(proxy="healthy", firewall="healthy", agent="exited")
    agent = agent_of(world)
    assert (agent.state, agent.ready) == ("exited", False)


def test_a_paused_container_is_resumed(world: World) -> None:
    world.have(proxy="healthy", firewall="healthy", agent="paused")
    assert agent_of(world).state == "paused"
    events = done(world, Resume(containers=(agent_of(world).id,)))
    assert events == [Started(purpose="unpausing the stack"), Finished(purpose="unpausing the stack")]


def test_foreign_containers_are_reported_with_the_command_that_ends_them(world: World) -> None:
    world.have(**RUNNING)
    stranger, sharer = world.add_stranger(), world.add_sharer()
    found = world.driver.observe(world.project.name)
    intruders = world.driver.intruders(found, world.project.name)
    assert [command.split()[-1] for command in intruders.strangers] == [stranger]
    assert [(one.name, one.mending.split()[-1]) for one in intruders.sharing] == [(sharer, sharer)]


def test_lists_the_leftovers_of_a_project_by_kind(world: World) -> None:
    world.have(**RUNNING)
    things = world.driver.leftovers(world.project.name)
    assert sorted(things) == ["containers", "networks", "volumes"]
    assert (bool(things["containers"]), bool(things["networks"])) == (True, True)


def test_images_that_do_not_exist_are_left_out(world: World) -> None:
    assert world.driver.images(("agent-sandbox/no-such-image:1", "no-such-image:1")) == {}


def test_returns_what_a_container_printed(world: World) -> None:
    world.have(**RUNNING)
    agent = agent_of(world)
    assert world.driver.logs(agent, tail=3).capture().code == 0
    assert world.driver.logs(world.project, "agent", tail=3).watch(on_line=lambda _line: None).code == 0


def test_a_container_can_be_stopped(world: World) -> None:
    world.have(**RUNNING)
    events = done(world, Stop(service="agent", container=agent_of(world).id))
    assert events == [Started(purpose="stopping the agent"), Finished(purpose="stopping the agent")]


def test_each_plan_of_a_stack_can_be_executed(world: World) -> None:
    world.have(**RUNNING)
    for verb in (
        Up(build=Build(images=())),
        Up(build=Build(images=()), ready=True),
        Up(build=Build(images=()), anew=("agent",)),
        Restart(service="proxy"),
        Down(),
    ):
        events = done(world, verb)
        started = [event.purpose for event in events if isinstance(event, Started)]
        assert started == [event.purpose for event in events if isinstance(event, Finished)] != []
        skipped = isinstance(verb, Up) and verb.ready
        assert [event for event in events if isinstance(event, Unneeded)] == (
            [Unneeded(name=world.project.name)] * skipped
        )


def test_reports_a_command_that_fails(world: World) -> None:
    world.have(**RUNNING)
    step = failing(world)
    with pytest.raises(UserError, match=r"^failing: \w+ failed: "):
        world.driver.execute((step,))
    mine = Problem(where="x", what="mine")
    with pytest.raises(UserError) as raised:
        world.driver.execute((step,), explain=lambda _step, _said: [mine])
    assert raised.value.problems == (mine,)


def test_removing_an_image_that_does_not_exist_is_not_an_error(world: World) -> None:
    world.have()
    program = failing(world).argv[0]
    argv = (program, "image", "rm", "agent-sandbox/no-such-image:1")
    world.driver.execute((RemoveImages(argv=argv, once_built=False),))


def test_reports_a_missing_command_of_the_engine(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(world.project.root))
        for act in (
            lambda: world.driver.observe("app-1"),
            lambda: world.driver.execute((failing(world),)),
            world.driver.logs(world.project).capture,
            world.driver.spawn(Role(project=world.project, service="agent"), "true").capture,
        ):
            with pytest.raises(UserError, match=r"^(\w+): the \1 command was not found; .*docker"):
                act()
        assert world.driver.host().answers is False


def test_an_unknown_error_is_reported_for_the_attempted_action(world: World) -> None:
    mine = Problem(where="x", what="mine")
    assert world.driver.explain("it broke", doing="trying").where == "trying"
    assert world.driver.explain("it broke", doing="trying", otherwise=lambda: mine) == mine


def test_checks_have_different_names_and_belong_to_the_engine(world: World) -> None:
    rows = world.driver.host().checks
    names = [row.name for row in rows]
    assert sorted(set(names)) == sorted(names)
    assert {row.stage for row in rows}.isdisjoint({Stage.PROJECT, Stage.WORKSPACE})


@pytest.mark.docker
@pytest.mark.parametrize("world", [f"real {name}" for name in DRIVERS], indirect=True)
def test_names_the_programs_that_a_start_would_end(world: World) -> None:
    world.have(**RUNNING)
    agent, (file,), builds = agent_of(world), world.project.files, list[str]()
    run("docker", "exec", "--detach", agent.id, "tail", "-f", "/dev/null")

    def ending() -> tuple[str, ...]:
        return world.driver.would_end(world.project, agent, build=lambda: builds.append("built"))

    assert "tail" not in ending()
    file.write_text(file.read_text().replace("infinity", '"1000"'))
    assert "tail" in ending()
    assert builds == ["built"] * 2


@pytest.mark.docker
def test_checks_of_a_real_engine_give_results() -> None:
    machine = Machine(path=None, cwd=Path("/"), driver=load_driver())
    rows = [row for row in machine.host.checks if not row.project]
    found = [row.check(machine) for row in rows]
    results = [one for result in found for one in ([result] if isinstance(result, CheckResult) else [*result])]
    assert {result.name for result in results} == {row.name for row in rows}
    assert (machine.host.answers, all(result.what for result in results)) == (True, True)
