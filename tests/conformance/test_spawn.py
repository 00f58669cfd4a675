"""What `spawn` promises for a program in a container, on a fake engine and on a real one."""

import os
import pty
import signal
from collections.abc import Iterable

import pytest

from agent_sandbox.engines.place import Helper, Place, Role, Store
from agent_sandbox.host.command import Command
from agent_sandbox.host.process import TIMED_OUT, TOO_MUCH, Input
from driver_worlds import World

RUNNING = {"proxy": "healthy", "firewall": "healthy", "agent": "healthy"}
LARGE = 3 << 20


@pytest.fixture(params=["container", "role", "helper"])
def place(running: World, request: pytest.FixtureRequest) -> Place:
    """Each place in which a program can run."""
    if request.param == "helper":
        return Helper(project=running.project, image=running.image)
    (agent,) = running.driver.observe(running.project.name, "agent")
    return agent if request.param == "container" else Role(project=running.project, service="agent")


def sh(running: World, place: Place, script: str, *words: str, stdin: bool = False) -> Command:
    return running.driver.spawn(place, "/bin/sh", "-c", script, "sh", *words, stdin=stdin)


def test_returns_the_output_and_the_exit_code(running: World, place: Place) -> None:
    done = sh(running, place, "echo out; echo err >&2; exit 3").capture()
    assert (done.out, done.err, done.code) == ("out\n", "err\n", 3)


def test_arguments_reach_the_program_unchanged(running: World, place: Place) -> None:
    words = ("a b", "$(id)", "'", "--env", "", "*", "\n;x")
    assert sh(running, place, 'printf "%s|" "$@"', *words).capture().out == "".join(f"{word}|" for word in words)


def test_a_closed_stdin_is_at_its_end(running: World, place: Place) -> None:
    assert sh(running, place, "cat; echo end").capture().out == "end\n"


@pytest.mark.parametrize("size", [7, LARGE])
def test_a_piped_stdin_arrives_whole(running: World, place: Place, size: int) -> None:
    done = sh(running, place, "cat", stdin=True).capture(stdin=b"x" * size, timeout=120)
    assert (len(done.out), done.code) == (size, 0)


def test_variables_reach_the_program(running: World, place: Place) -> None:
    env = {"A": "x y", "B": "$A"}
    assert running.driver.spawn(place, "/bin/sh", "-c", 'echo "$A|$B"', env=env).capture().out == "x y|$A\n"


def test_runs_as_the_given_user(running: World, place: Place) -> None:
    assert running.driver.spawn(place, "id", "-u", user="4711:4711").capture().out.split(":")[0].strip() == "4711"


def test_large_output_is_whole_or_the_program_ends(running: World, place: Place) -> None:
    printing = sh(running, place, f"head -c {LARGE} /dev/zero | tr '\\0' x")
    assert len(printing.capture(timeout=120).out) == LARGE
    assert printing.capture(timeout=120, most=LARGE // 2).code == TOO_MUCH


def test_a_program_that_takes_too_long_is_left(running: World, place: Place) -> None:
    assert sh(running, place, "cat; sleep 20").capture(timeout=0.5).code == TIMED_OUT


def test_lines_are_passed_on_while_the_program_reads_its_stdin(running: World, place: Place) -> None:
    lines: list[str] = []
    inputs: list[Input] = []

    def answer(line: str) -> None:
        lines.append(line)
        if line == "ready":
            inputs[0].say("hello")
            inputs[0].close()

    done = sh(running, place, "echo ready; cat; exit 4", stdin=True).watch(on_line=answer, on_start=inputs.append)
    assert (lines, done.code) == (["ready", "hello"], 4)


def test_ctrl_c_ends_the_command(running: World, place: Place) -> None:
    with pytest.raises(KeyboardInterrupt):
        sh(running, place, "echo ready; cat", stdin=True).watch(on_line=lambda _: os.kill(os.getpid(), signal.SIGINT))


def test_a_program_with_pipes_answers_what_it_is_told(running: World, place: Place) -> None:
    with sh(running, place, "read word; echo got $word; exit 5", stdin=True).piped() as child:
        assert child.communicate(b"it\n", timeout=60)[0] == b"got it\n"
    assert child.returncode == 5


def test_a_program_gets_a_terminal_only_on_request(running: World, place: Place) -> None:
    script = "if [ -t 0 ] && [ -t 1 ]; then echo a terminal; else echo none; fi"
    argv = ("/bin/sh", "-c", script)
    on_terminal = running.driver.spawn(place, *argv, stdin=True, tty=True)
    assert b"a terminal" in b"".join(shown(on_terminal))
    assert running.driver.spawn(place, *argv, stdin=True).capture().out == "none\n"


def shown(command: Command) -> Iterable[bytes]:
    """Yield what a command shows on a terminal."""
    child, leader = pty.fork()
    if not child:
        os._exit(command.attach(pass_signal=command))
    try:
        while data := os.read(leader, 1 << 16):
            yield data
    except OSError:  # Linux reports the end so
        pass
    finally:
        os.close(leader)
        os.waitpid(child, 0)


def test_a_container_that_is_gone_is_an_error(world: World) -> None:
    world.have(**RUNNING)
    (agent,) = world.driver.observe(world.project.name, "agent")
    world.have(proxy="healthy", firewall="healthy")
    for place in (agent, Role(project=world.project, service="agent")):
        done = world.driver.spawn(place, "echo", "hi").capture()
        assert (done.code != 0, done.out, bool(done.err)) == (True, "", True)


@pytest.mark.parametrize("world", ["real compose"], indirect=True)
@pytest.mark.docker
def test_a_helper_changes_nothing_but_its_stores_and_reaches_nothing(world: World) -> None:
    store = Store(volume=f"{world.project.name}_kept", at="/kept", writes=True)
    writing = Helper(project=world.project, image=world.image, stores=(store,))
    assert world.driver.spawn(writing, "/bin/sh", "-c", "echo x >/kept/a", user="0:0").capture().code == 0
    reading = Helper(project=world.project, image=world.image, stores=(Store(volume=store.volume, at="/kept"),))
    tried = "cat /kept/a; touch /kept/b || echo no; touch /b || echo no; tail -n +3 /proc/net/dev | cut -d: -f1"
    assert world.driver.spawn(reading, "/bin/sh", "-c", tried).capture().out.split() == ["x", "no", "no", "lo"]
    assert store.volume in world.driver.leftovers(world.project.name)["volumes"]
