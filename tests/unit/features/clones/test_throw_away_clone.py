import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from agent_sandbox.engines.plan import Plan, RunCommand
from agent_sandbox.features.clones import throw_away_clone as module
from agent_sandbox.features.clones.clones import claim_clone, enter_clone
from agent_sandbox.features.clones.fetch import one_at_a_time
from agent_sandbox.features.clones.throw_away_clone import ThrowAwayClone, fetched_and_removed, thrown_away
from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import clones_of
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project
from agent_sandbox.project.trust_store import open_store
from clone_worlds import HereDriver, commit, git, hostile_filter, with_clone_driver
from fake_docker import FakeDocker
from fake_stack import compose_line

LEFT = "volume prune --all --force --filter label=com.docker.compose.project=app-1"


@pytest.fixture
def driver(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> HereDriver:
    return with_clone_driver(project, tmp_path_factory.mktemp("clone"), monkeypatch)


@pytest.fixture
def plans(driver: HereDriver, monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """What was executed to stop and to remove the clone."""
    done: list[Plan] = []
    monkeypatch.setattr(module, "backend", lambda: driver.planner)
    monkeypatch.setattr(module, "execute", lambda plan, **_options: done.append(plan))
    return done


@pytest.fixture
def thrown(project: Path, plans: list[Plan]) -> ThrowAwayClone:
    """A claimed clone that was entered."""
    assert plans == []
    own = open_project(None, cwd=project)
    throwing = ThrowAwayClone(claim_clone(own, ""))
    enter_clone(own, throwing.clone.name, extra_ca=None, quiet=True)
    return throwing


def words(plans: list[Plan]) -> list[str]:
    """Return the first command of each plan, from its verb on."""
    steps = (next(step for step in plan if isinstance(step, RunCommand)) for plan in plans)
    return [" ".join(step.argv[step.argv.index("down") :]) for step in steps]


@contextmanager
def running(project: Path, *, quiet: bool = False) -> Iterator[Project]:
    """Make a clone, let an agent work in it, and end."""
    own = open_project(None, cwd=project)
    with fetched_and_removed(claim_clone(own, ""), quiet=quiet) as throwing:
        yield enter_clone(own, throwing.clone.name, extra_ca=None, quiet=True).project


@pytest.mark.parametrize("quiet", [False, True])
def test_stops_the_stack_fetches_its_commits_and_removes_everything(
    project: Path, driver: HereDriver, plans: list[Plan], capsys: pytest.CaptureFixture[str], *, quiet: bool
) -> None:
    with running(project, quiet=quiet) as own:
        new = commit(driver.folder)
    assert git(project, "rev-parse", "box/clone-1/main") == new
    assert words(plans) == ["down --remove-orphans", "down --remove-orphans --volumes"]
    assert (clones_of(project, os.environ), own.root.exists()) == ((), False)
    assert open_store(os.environ).load(own.root) is None
    assert capsys.readouterr().err == ("" if quiet else "box/clone-1/main  1 new commit\n")


def test_a_clone_with_work_that_is_not_fetched_is_kept(
    project: Path, driver: HereDriver, plans: list[Plan], capsys: pytest.CaptureFixture[str]
) -> None:
    with running(project):
        (driver.folder / "new.txt").write_text("")
    assert words(plans) == ["down --remove-orphans"]
    assert [one.name for one in clones_of(project, os.environ)] == ["clone-1"]
    assert capsys.readouterr().err == (
        "clone-1: nothing new to fetch\n"
        "  not committed: 1 file: new.txt\n"
        "kept: the clone clone-1 has work that was not fetched\n"
        "  to continue it: agent-sandbox run --clone --name clone-1\n"
        "  to remove it: agent-sandbox destroy --path clone-1\n"
    )


def test_commits_that_cannot_be_fetched_are_a_failure(
    project: Path, driver: HereDriver, plans: list[Plan], thrown: ThrowAwayClone, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(driver.folder)
    with one_at_a_time(thrown.clone):
        assert thrown.fetch() is None
    assert (thrown.failed, thrown.is_kept) == (True, True)
    assert capsys.readouterr().err == (
        "error: clone-1: another command is using this clone\n"
        "  hint: wait until that command ends, then run this one again\n"
    )
    assert thrown.fetch() is None  # one attempt
    assert len(plans) == 1
    git(driver.folder, "update-ref", "refs/heads/z\u200b", "HEAD")
    again = ThrowAwayClone(thrown.clone)
    assert again.fetch()
    assert (again.failed, again.is_kept) == (True, True)
    assert git(project, "for-each-ref", "--format=%(refname)", "refs/remotes") == "refs/remotes/box/clone-1/main"


def test_a_clone_that_was_not_filled_is_removed(project: Path, plans: list[Plan]) -> None:
    own = open_project(None, cwd=project)
    with pytest.raises(SystemExit), fetched_and_removed(claim_clone(own, "fix-1")):
        raise SystemExit(3)
    assert (clones_of(project, os.environ), plans) == ((), [])


def test_a_filled_clone_without_a_record_is_not_fetched(thrown: ThrowAwayClone) -> None:
    thrown.clone.root.with_suffix(".json").unlink()
    assert (thrown.fetch(), thrown.failed) == (None, False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_and_the_next_ones_do_not_stop_the_fetch(
    project: Path, driver: HereDriver, plans: list[Plan], monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    def signalled(plan: Plan, **_options: object) -> None:
        signal.raise_signal(number)
        plans.append(plan)

    monkeypatch.setattr(module, "execute", signalled)
    with pytest.raises(KeyboardInterrupt), running(project):  # noqa: PT012 - what it is about
        commit(driver.folder)
        signal.raise_signal(number)
    assert git(project, "rev-parse", "box/clone-1/main") == git(driver.folder, "rev-parse", "main")
    assert (len(plans), clones_of(project, os.environ)) == (2, ())


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt("SIGTERM"), ValueError()])
def test_keeps_a_clone_whose_fetch_was_interrupted(
    project: Path, driver: HereDriver, plans: list[Plan], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def broken(_clone: object) -> None:
        raise error

    with pytest.raises(type(error)), fetched_and_removed(claim_clone(open_project(None, cwd=project), "")) as throwing:  # noqa: PT012 - what it is about
        enter_clone(open_project(None, cwd=project), "clone-1", extra_ca=None, quiet=True)
        commit(driver.folder)
        monkeypatch.setattr(module, "fetch_clone", broken)
        throwing.fetch()  # as `run --json` does
    assert words(plans) == ["down --remove-orphans"]
    assert [one.name for one in clones_of(project, os.environ)] == ["clone-1"]


def test_a_signal_during_the_fetch_of_a_summary_does_not_stop_it(
    project: Path, driver: HereDriver, thrown: ThrowAwayClone, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = commit(driver.folder)
    monkeypatch.setattr(module, "execute", lambda _plan, **_options: signal.raise_signal(signal.SIGINT))
    assert thrown.fetch()
    assert (thrown.failed, git(project, "rev-parse", "box/clone-1/main")) == (False, new)


def test_ctrl_c_during_the_fetch_stops_it_and_keeps_the_clone(
    project: Path, driver: HereDriver, plans: list[Plan], capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack, pytest.raises(KeyboardInterrupt), running(project):  # noqa: PT012 - what it is about
        commit(driver.folder)
        stack.enter_context(hostile_filter(driver.folder))
    assert words(plans) == ["down --remove-orphans"]
    assert [one.name for one in clones_of(project, os.environ)] == ["clone-1"]
    assert capsys.readouterr().err == (
        "kept: the clone clone-1: fetching its commits was interrupted\n"
        "  to fetch them: agent-sandbox fetch clone-1\n"
        "  to continue it: agent-sandbox run --clone --name clone-1\n"
        "  to remove it: agent-sandbox destroy --path clone-1\n"
    )


def test_a_clone_with_a_damaged_record_is_kept(thrown: ThrowAwayClone, capsys: pytest.CaptureFixture[str]) -> None:
    thrown.clone.root.with_suffix(".json").write_text("{")
    assert (thrown.fetch(), thrown.is_kept) == (None, True)
    assert "the record of this clone is damaged" in capsys.readouterr().err


def test_a_clone_that_another_command_fills_or_has_filled_is_not_removed(project: Path, plans: list[Plan]) -> None:
    own = open_project(None, cwd=project)
    throwing = ThrowAwayClone(claim_clone(own, "fix-1"))
    assert (throwing.fetch(), throwing.is_kept) == (None, False)
    with one_at_a_time(throwing.clone), pytest.raises(UserError, match="another command is using this clone"):
        throwing.remove(quiet=True)
    enter_clone(own, "fix-1", extra_ca=None, quiet=True)
    with pytest.raises(UserError, match="another command has filled it"):
        throwing.remove(quiet=True)
    assert ([one.name for one in clones_of(project, os.environ)], plans) == (["fix-1"], [])


@pytest.mark.usefixtures("plans")
def test_a_clone_with_commits_that_only_a_tag_has_is_kept(
    project: Path, driver: HereDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(project):
        git(driver.folder, "switch", "--quiet", "--detach")
        new = commit(driver.folder)
        git(driver.folder, "tag", "v1")
        git(driver.folder, "switch", "--quiet", "main")
    assert [one.name for one in clones_of(project, os.environ)] == ["clone-1"]
    assert f"  refused: {new[:10]}: no branch has this commit" in capsys.readouterr().err


def nothing() -> None:
    """Have all images already."""


@pytest.fixture
def stack(project: Path, docker: FakeDocker) -> Project:
    """A project without anything on the engine yet."""
    docker.says("ps --all").says("network ls").says("volume ls").says(LEFT).says("compose")
    return open_project(project, cwd=project)


def removed(docker: FakeDocker) -> bool:
    return docker.calls[-2:] == [f"{compose_line(Path.cwd())} down --remove-orphans --volumes", LEFT]


def test_removes_the_stack_and_restores_the_files(stack: Project, docker: FakeDocker) -> None:
    (stack.root / "Makefile").write_text("all:")
    with thrown_away(stack, build=nothing, quiet=True) as before:
        assert not removed(docker)
    assert removed(docker)
    assert set(before.files) == {"Makefile"}


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), UserError([])])
def test_removes_the_stack_even_if_the_block_raises(stack: Project, docker: FakeDocker, error: BaseException) -> None:
    with pytest.raises(type(error)), thrown_away(stack, build=nothing, quiet=True):
        raise error
    assert removed(docker)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_block_and_the_next_ones_do_not_stop_the_removal(
    stack: Project, docker: FakeDocker, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    # As a CI system does: it signals again while the stack is removed.
    docker.rules.clear()
    script = f"kill -{number.name.removeprefix('SIG')} {os.getpid()}"
    docker.says("ps --all").says("network ls").says("volume ls").says(LEFT).says("compose", script=script)
    with pytest.raises(KeyboardInterrupt), thrown_away(stack, build=nothing, quiet=True):
        signal.raise_signal(number)
    assert removed(docker)
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("kind", ["ps --all", "network ls", "volume ls"])
def test_keeps_a_sandbox_that_has_state(project: Path, docker: FakeDocker, kind: str) -> None:
    docker.says(kind, out="one\n").says("ps --all").says("network ls").says("volume ls")
    stack = open_project(project, cwd=project)
    with pytest.raises(UserError) as refused, thrown_away(stack, build=nothing):
        raise AssertionError
    noun = {"ps --all": "container", "network ls": "network", "volume ls": "volume"}[kind]
    (problem,) = refused.value.problems
    assert (problem.where, problem.what, problem.hint) == (
        "app-1",
        f"this project has a sandbox, and --rm would remove its state: 1 {noun}",
        "leave out --rm, use another checkout, or remove it first: agent-sandbox destroy",
    )
    assert not any("down" in call for call in docker.calls)


def test_keeps_a_sandbox_that_was_started_during_the_build(stack: Project, docker: FakeDocker) -> None:
    def build() -> None:
        docker.rules.clear()
        docker.says("ps --all", out="one\n").says("network ls").says("volume ls")

    with pytest.raises(UserError, match="this project has a sandbox"), thrown_away(stack, build=build):
        raise AssertionError
    assert not removed(docker)
