import io
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.policyfile import layer_beside
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy import __main__ as subject
from agent_sandbox.proxy import run
from agent_sandbox.proxy.control import bridge, client, health
from agent_sandbox.proxy.upstream.overrides import Override


@pytest.fixture(autouse=True)
def _hangup() -> Iterator[None]:
    """Restore the SIGHUP handler after each test: `run` ignores the signal until it can reload the policy."""
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, object]], list[object]]:
    """Fake the answer of the control socket; return the commands that it got."""

    def prepared(answer: dict[str, object]) -> list[object]:
        asked: list[object] = []

        def ask(path: Path, question: dict[str, object]) -> dict[str, object]:
            asked.append((path, question))
            return answer

        monkeypatch.setattr(subject, "ask", ask)
        return asked

    return prepared


@pytest.mark.parametrize(
    ("argv", "question", "answer", "code"),
    [
        (["status"], {"verb": "status"}, {"x": 1}, 0),
        (["reload"], {"verb": "reload"}, {"ok": True}, 0),
        (["reload"], {"verb": "reload"}, {"ok": False}, 1),
        (["verify", "--seconds=9"], {"verb": "verify", "seconds": 9}, {"ok": True}, 0),
        (["learn", "--seconds=9", "--who=ana"], {"verb": "learn", "seconds": 9, "who": "ana"}, {"ok": True}, 0),
        (["learn", "--seconds=9"], {"verb": "learn", "seconds": 9, "who": ""}, {"error": "no"}, 1),
        (["denials", "--count=3"], {"verb": "denials", "count": 3}, {"denials": []}, 0),
    ],
)
def test_sends_commands_to_the_control_socket_and_prints_the_answers(  # noqa: PLR0917 - a table
    answering: Callable[[dict[str, object]], list[object]],
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    question: dict[str, object],
    answer: dict[str, object],
    code: int,
) -> None:
    asked = answering(answer)
    assert subject.main([*argv, "--control=c.sock"]) == code
    assert asked == [(Path("c.sock"), question)]
    assert json.loads(capsys.readouterr().out) == answer


def test_status_with_denials_also_requests_the_last_denials(
    answering: Callable[[dict[str, object]], list[object]], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = answering({"x": 1})
    assert subject.main(["status", "--denials=3", "--control=c.sock"]) == 0
    assert asked == [(Path("c.sock"), question) for question in ({"verb": "status"}, {"verb": "denials", "count": 3})]
    assert json.loads(capsys.readouterr().out) == {"x": 1}


@pytest.mark.parametrize(("symptoms", "code"), [([], 0), (["the proxy does not deny what must be denied"], 1)])
def test_health_prints_the_symptoms_and_returns_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], symptoms: list[str], code: int
) -> None:
    monkeypatch.setattr(health, "sickness", lambda *_: symptoms)
    assert subject.main(["health", "--control=c", "--proxy=127.0.0.1:8080"]) == code
    assert capsys.readouterr().err == "".join(f"{symptom}\n" for symptom in symptoms)


def test_prints_a_problem_and_returns_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def ask(*_: object) -> None:
        raise UserError([Problem(where="c", what="gone")])

    monkeypatch.setattr(subject, "ask", ask)
    assert subject.main(["status", "--control=c"]) == 1
    assert capsys.readouterr().err == "c: gone\n"


def test_run_uses_nothing_of_a_state_directory_that_another_user_could_have_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "run", lambda *_: pytest.fail("the proxy started"))
    (tmp_path / "state").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "state" / "private").symlink_to(tmp_path / "elsewhere")
    assert subject.main(["run", "--policy=p.yaml", "--listen=127.0.0.1:0", f"--state={tmp_path}/state"]) == 1
    assert capsys.readouterr().err == (
        f"{tmp_path}/state/private: a symbolic link, which could lead to another user's files; "
        "remove it unless you know who made it, then start again\n"
    )
    assert [*(tmp_path / "elsewhere").iterdir()] == []


def test_run_receives_the_parsed_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    got: list[Any] = []

    async def serve(settings: object, _: object) -> None:
        got.append(settings)

    monkeypatch.setattr(run, "run", serve)
    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", "")
    argv = ["run", "--policy=p.yaml", "--listen=127.0.0.1:0", "--state=s", "--resolve=a:1:127.0.0.1:2"]
    argv.append("--layer=user=u.yaml")
    assert subject.main([*argv, "--policy-name=name"]) == 0
    settings = got[0]
    assert (settings.policy, settings.state) == (Path("p.yaml").absolute(), Path("s").absolute())
    assert settings.policy_name == "name"
    assert settings.layers == (layer_beside("user", Path("u.yaml").absolute()),)
    assert os.environ["PYDANTIC_DISABLE_PLUGINS"] == "__all__"
    assert settings.listen == ("127.0.0.1", 0)
    assert settings.overrides == (Override(host="a", port=1, address="127.0.0.1", to=2),)


def test_runs_as_a_module(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(client, "ask", lambda *_: {"x": 1})
    monkeypatch.setattr("sys.argv", ["proxy", "status", "--control=c"])
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(subject.__file__), run_name="__main__")
    assert (caught.value.code, capsys.readouterr().out) == (0, '{"x": 1}\n')


def test_leave_flushes_stdout_and_stderr() -> None:
    script = "import sys; from agent_sandbox.proxy.__main__ import leave; print(1); sys.stderr.write('2'); leave(3)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "1\n", "2")


@pytest.mark.parametrize(("argv", "hosts"), [([], "aba"), (["--tail=2"], "ba"), (["--denied"], "aa")])
def test_log_prints_the_selected_records(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], argv: list[str], hosts: str
) -> None:
    lines = [
        {"event": "request", "decision": decision, "host": host}
        for host, decision in (("a", "deny"), ("b", "allow"), ("a", "deny"))
    ]
    (tmp_path / "log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert subject.main(["log", f"--file={tmp_path}/log", *argv]) == 0
    assert [json.loads(line)["host"] for line in capfdbinary.readouterr().out.splitlines()] == list(hosts)


def test_log_follows_the_file_until_stdin_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = tmp_path / "log"
    log.write_text('{"event": "request", "host": "a"}\n')
    reading, holding = os.pipe()
    monkeypatch.setattr(subject, "FOLLOW_SECONDS", 0.001)
    monkeypatch.setattr("sys.stdin", os.fdopen(reading))

    def add_and_go() -> None:
        with log.open("a") as file:
            file.write('{"event": "request", "host": "b"}\n')
        os.close(holding)

    threading.Timer(0.05, add_and_go).start()
    with sys.stdin:
        assert subject.main(["log", f"--file={log}", "--follow"]) == 0
    assert b'"host": "a"' in capfdbinary.readouterr().out


ROW = {"name": "token", "hosts": ["a.test"], "problem": "", "expires": None, "uses": 0, "last_use": 0.0}


def test_stores_lists_and_removes_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"correct horse\n")))
    folder = f"--folder={tmp_path}"
    assert subject.main(["secret", "set", "token", "--host=b.test", "--host=a.test", folder]) == 0
    assert subject.main(["secret", "list", folder]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row == {**ROW, "hosts": ["a.test", "b.test"]}
    assert [subject.main(["secret", "remove", "token", folder]) for _ in range(2)] == [0, 1]
    assert capsys.readouterr() == ("", "there is no secret 'token'\n")


def test_a_login_is_stored_and_its_placeholders_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("secrets", "run"):
        (tmp_path / name).mkdir()
    folder = f"--folder={tmp_path / 'secrets'}"
    login = b"""{"endpoints": ["https://a.test/t"], "begins": {"access": "sk-"}, "answer": {}, "value": "real token"}"""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(login)))
    assert subject.main(["secret", "set", "a.login", "--host=b.test", "--login", folder]) == 0
    (printed,) = capsys.readouterr().out.splitlines()
    assert list(json.loads(printed)) == ["access"]
    assert subject.main(["secret", "list", folder]) == 0
    assert json.loads(capsys.readouterr().out) == [{**ROW, "name": "a.login", "hosts": ["b.test"]}]
    assert b"real token" not in b"".join(path.read_bytes() for path in (tmp_path / "secrets").iterdir())


def test_a_secret_with_a_source_is_stored_without_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("secrets", "run", "private"):
        (tmp_path / name).mkdir()
    (tmp_path / "private" / "secret-uses.json").write_text('{"token": [3, 1700000000.5], "other": [1, 1.0]}')
    folder = f"--folder={tmp_path / 'secrets'}"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"correct horse\n")))
    assert subject.main(["secret", "set", "token", "--host=a.test", "--source=env", "--ttl=3600", folder]) == 0
    assert subject.main(["secret", "list", folder]) == 0
    assert subject.main(["secret", "set", "token", "--host=a.test", "--unresolved", folder]) == 0
    assert subject.main(["secret", "list", folder]) == 0
    (first,), (second,) = map(json.loads, capsys.readouterr().out.splitlines())
    row = {**ROW, "uses": 3, "last_use": 1_700_000_000.5}
    assert 0 < first["expires"] - time.time() <= 3_600
    assert first == {**row, "expires": first["expires"]}
    assert second == {**row, "problem": "its source failed"}


def test_watch_opens_the_bridge_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(bridge, "bridge", lambda path, question: asked.append((path, question)))
    assert subject.main(["watch", "--control=/x", "--answers", "--asks"]) == 0
    assert asked == [(Path("/x"), {"verb": "subscribe", "answers": True, "asks": True})]
