import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.container import Container
from agent_sandbox.engines.place import Helper, Role, Store
from agent_sandbox.features.proxy.control import ask_proxy, ask_socket, read_traffic, tell_secrets
from agent_sandbox.features.stack.stack_list import without_directory
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.stack.containers import PROGRAM, SECRETS
from fake_docker import FakeDocker
from table_tests import each

PROJECT = without_directory("app-1")
PROXY = Role(project=PROJECT, service="proxy")
type Serve = Callable[[bytes], Path]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Return a function that answers one request on a socket and stores the request beside it."""

    def serve(answer: bytes) -> Path:
        path = tmp_path / "control.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()

        def talk() -> None:
            with listener, listener.accept()[0] as talker:
                path.with_suffix(".asked").write_bytes(talker.recv(1000))
                talker.sendall(answer)

        threading.Thread(target=talk, daemon=True).start()
        return path

    return serve


def test_returns_the_answer_of_a_stack_even_if_it_reports_problems(docker: FakeDocker) -> None:
    docker.says("status --control /state/run/control.sock", out='{"ok": false, "problems": ["x"]}\n', code=1)
    assert ask_proxy(DRIVER, PROJECT, "status") == {"ok": False, "problems": ["x"]}


def test_a_known_container_of_a_proxy_is_asked_directly(docker: FakeDocker) -> None:
    docker.says("exec 0123", out="{}")
    assert ask_proxy(DRIVER, Container(id="0123", service="proxy", image="x", state="running"), "status") == {}
    assert docker.calls == [f"exec 0123 {' '.join(PROGRAM)} status --control /state/run/control.sock"]


def test_a_stack_that_gives_no_answer_is_a_problem(docker: FakeDocker) -> None:
    docker.says("status", err='service "proxy" is not running\n', code=1)
    with pytest.raises(UserError, match=r'^asking the proxy: docker failed: service "proxy" is not running; '):
        ask_proxy(DRIVER, PROJECT, "status")


def test_tell_stack_passes_stdin_and_returns_what_the_stack_prints(docker: FakeDocker) -> None:
    docker.says("exec -T proxy", script='echo "got $(cat)"')
    assert tell_secrets(DRIVER, PROJECT, "set", "x", stdin=b"a value") == "got a value\n"
    assert docker.calls[0].endswith(f"exec -T proxy {' '.join(PROGRAM)} secret set x --folder {SECRETS}")
    docker.rules.clear()
    docker.says("run --rm", script='echo "got $(cat)"')
    assert tell_secrets(DRIVER, PROJECT, "set", "x", runs=False, stdin=b"it") == "got it\n"
    assert docker.calls[1].endswith(f"run --rm --no-deps -T proxy secret set x --folder {SECRETS}")


@each(
    ("code", "err", "problems"),
    [
        (
            1,
            "secret x: there is none\nsecret y: neither\n",
            [Problem(where="", what="secret x: there is none"), Problem(where="", what="secret y: neither")],
        ),
        (
            1,
            "",
            [
                Problem(
                    where="asking the proxy",
                    what="docker failed: no output",
                    hint="run agent-sandbox doctor to find the cause",
                )
            ],
        ),
        (
            2,
            "usage: python -P -m agent_sandbox.proxy\n",
            [
                Problem(
                    where="proxy",
                    what="the running proxy is of another version",
                    hint="agent-sandbox init, then agent-sandbox up",
                )
            ],
        ),
        (
            137,
            "killed\n",
            [
                Problem(
                    where="asking the proxy",
                    what="docker failed: killed",
                    hint="run agent-sandbox doctor to find the cause",
                )
            ],
        ),
    ],
)
def test_reports_the_errors_of_a_stack_as_problems(
    code: int, err: str, problems: list[Problem], docker: FakeDocker
) -> None:
    docker.rules.clear()
    docker.says("secret list --folder /state/secrets", err=err, code=code)
    with pytest.raises(UserError) as caught:
        tell_secrets(DRIVER, PROJECT, "list")
    assert list(caught.value.problems) == problems


def test_asks_a_proxy_on_this_machine_through_its_socket(serve: Serve) -> None:
    path = serve(b'{"ok": true}\n')
    assert ask_socket(path, "reload") == {"ok": True}
    assert path.with_suffix(".asked").read_bytes() == b'{"verb": "reload"}\n'


@pytest.mark.parametrize("answer", [b"hello\n", b"[1]\n", b""])
def test_reports_another_program_that_answers_on_the_socket(serve: Serve, answer: bytes) -> None:
    path = serve(answer)
    with pytest.raises(UserError) as raised:
        ask_socket(path, "reload")
    assert str(raised.value) == f"{path}: the program that answers here is not an agent-sandbox proxy"


def test_reports_a_missing_socket(tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        ask_socket(tmp_path / "none.sock", "reload")
    expected = (
        f"{tmp_path}/none.sock: no proxy answers here: No such file or directory;"
        " `agent-sandbox proxy run` prints its control socket when it is ready"
    )
    assert str(raised.value) == expected


def test_passes_on_each_line_of_a_stack(docker: FakeDocker) -> None:
    docker.says("proxy log --file /state/log/traffic.jsonl", out="one\ntwo\n")
    lines: list[str] = []
    read_traffic(DRIVER, PROXY, on_line=lines.append)
    assert lines == ["one", "two"]
    docker.rules.clear()
    docker.says("--entrypoint", out="three\n")
    store = Store(volume="app-1_log", at="/state/log")
    helper = Helper(project=PROJECT, image="image:1", stores=(store,))
    read_traffic(DRIVER, helper, "--denied", on_line=lines.append)
    assert (lines[-1], docker.calls[-1].split()[:2]) == ("three", ["run", "--rm"])
    assert "--user 10001:10001 " in docker.calls[-1]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("", "proxy: it stopped or restarted during the request; agent-sandbox status"),
        ('{"decision": "deny"}\n', "proxy: it stopped or restarted during the request; agent-sandbox status"),
        (
            '{"decision": "deny"}\nno log\n',
            "reading the traffic log: docker failed: no log; run agent-sandbox doctor to find the cause",
        ),
    ],
)
def test_reports_why_the_lines_ended_too_early_without_quoting_decisions(
    docker: FakeDocker, said: str, problem: str
) -> None:
    docker.says(" log --file", out=said, code=137)
    with pytest.raises(UserError) as caught:
        read_traffic(DRIVER, PROXY, on_line=lambda _: None)
    assert str(caught.value) == problem
