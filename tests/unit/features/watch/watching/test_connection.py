import json
import shlex
import threading
import time
from pathlib import Path

import pytest

from agent_sandbox.features.policy.layer_rule import RuleLayer
from agent_sandbox.features.proxy.reports import Question, Report, State
from agent_sandbox.features.watch.watching import connection as subject
from agent_sandbox.features.watch.watching.connection import Connection
from agent_sandbox.features.watch.watching.desktop import Desktop
from agent_sandbox.features.watch.watching.webhook import Webhook
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import open_project
from fake_docker import FakeDocker
from fake_stack import with_containers

WATCH = "exec -T proxy /opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy watch --answers --control"
STATE = json.dumps({"state": {"ask": "", "questions": [], "grants": []}})


class Watched:
    """What a connection reports until it has been lost so often."""

    def __init__(self, *, losses: int = 1) -> None:
        self.project = open_project(None, cwd=Path.cwd())
        self.reports: list[Report] = []
        self.lost: list[str] = []
        self.slept: list[float] = []
        self.losses = losses
        self.connection = Connection(self.project, on_report=self.report, on_lost=self.lost.append)
        self.connection._over.wait = self.sleep  # type: ignore[assignment, method-assign]
        self.says: tuple[int, str, int | None] | None = None

    def report(self, found: Report) -> None:
        """Keep it, and answer if there is an answer to give."""
        self.reports.append(found)
        if self.says:
            number, scope, seconds = self.says
            self.connection.answer(number, scope, seconds=seconds)

    def sleep(self, seconds: float) -> None:
        """Keep it, and end when it has been lost often enough."""
        self.slept.append(seconds)
        if len(self.slept) >= self.losses:
            self.connection.end()

    def watch(self, *, asks: bool = False) -> None:
        """Watch."""
        self.connection.watch(answers=True, asks=asks)


@pytest.fixture
def up(project: Path, docker: FakeDocker) -> FakeDocker:
    """Have a proxy that runs."""
    assert project.exists()
    return with_containers(docker, proxy="healthy")


def test_one_command_carries_reports_and_answers(up: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "user_name", lambda: "ana")
    heard = Path("heard")
    up.says(WATCH, script=f"echo {shlex.quote(STATE)}; echo noise; head -n 1 > {heard}")
    watched = Watched()
    watched.says = (3, "time", 60)
    told: list[State] = []
    monkeypatch.setattr(Desktop, "report", lambda _, state: told.append(state))
    watched.watch()
    assert watched.reports == told == [State()]
    assert json.loads(heard.read_text()) == {"verb": "answer", "id": 3, "scope": "time", "who": "ana", "seconds": 60}
    assert watched.lost == ["app-1: the proxy does not answer; trying again"]
    assert len([call for call in up.calls if "watch --answers" in call]) == 1


def test_sends_questions_and_answers_to_the_webhook(up: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (STATE, json.dumps({"record": {"event": "grant"}}), json.dumps({"dropped": 1}))
    up.says(WATCH, script="; ".join(f"echo {shlex.quote(line)}" for line in lines))
    told: list[object] = []
    monkeypatch.setattr(Webhook, "report", lambda _, state: told.append(state))
    monkeypatch.setattr(Webhook, "record", lambda _, record: told.append(record))
    Watched().watch()
    assert told == [State(), {"event": "grant"}, State()]  # the last one, because the connection was lost


def test_questions_are_reported_again_when_more_is_known_about_them(
    up: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = {"id": 3, "scheme": "https", "host": "new.test", "port": 443, "method": "GET", "path": "/", "query": 0}
    question |= {"body": 0, "reason": "", "rule": "", "requests": 1, "seconds_left": 9, "client": "172.18.0.3:40112"}
    line = json.dumps({"state": {"ask": "", "questions": [question], "grants": []}})
    up.says(WATCH, script=f"echo {shlex.quote(line)}; sleep 5")
    monkeypatch.setattr(subject, "sandbox_clients", lambda _, clients: dict.fromkeys(clients, "curl -s"))
    watched = Watched()
    threading.Thread(target=watched.watch, daemon=True).start()
    end = time.monotonic() + 30
    while len(watched.reports) < 2:
        assert time.monotonic() < end
        time.sleep(0.01)
    watched.connection.end()
    states = [one for one in watched.reports if isinstance(one, State)]
    assert [one.sender for state in states for one in state.questions] == ["", "curl -s"]
    watched.connection._report_again()
    assert len(watched.reports) == 2


def test_asking_works_without_settings_ask_in_the_policy(up: FakeDocker) -> None:
    up.says(WATCH.replace(" --control", " --asks --control"), script=f"echo {shlex.quote(STATE)}")
    watched = Watched()
    watched.watch(asks=True)
    assert len(watched.reports) == 1


def test_reconnects_with_increasing_delays(up: FakeDocker) -> None:
    up.says(WATCH, code=1)
    watched = Watched(losses=4)
    watched.watch()
    assert watched.slept == [2.0, 5.0, 5.0, 5.0]
    with pytest.raises(UserError, match="the connection to the proxy is closed"):
        watched.connection.answer(3, "once")


def test_a_stopped_proxy_is_a_problem(project: Path, docker: FakeDocker) -> None:
    assert project.exists()
    with_containers(docker)
    with pytest.raises(UserError, match="the stack is not running"):
        Watched().watch()


def asked(rule: str, *, by_rule: bool = False) -> Question:
    return Question(
        id=3,
        method="GET",
        url="https://new.test/x",
        host="new.test",
        details="",
        reason="",
        services=(),
        rule=rule,
        requests=1,
        seconds_left=9,
        asked_by_rule=by_rule,
    )


def test_a_rule_for_the_project_is_written_and_loaded(up: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up.says("reload", out=json.dumps({"ok": True, "digest": "0123456789ab", "change": {}}))
    policy = Path(".devcontainer/policy.yaml")
    before = policy.read_text() + "# mine\n"
    policy.write_text(before)
    Watched().connection.allow_in(RuleLayer.PROJECT, asked("GET https://new.test/**"))
    assert policy.read_text() == f"{before}allow:\n  - GET https://new.test/**\n"
    assert "policy loaded, digest 0123456789ab" in capsys.readouterr().err
    with pytest.raises(UserError, match="no rule can express exactly this request"):
        Watched().connection.allow_in(RuleLayer.PROJECT, asked(""))
    with pytest.raises(UserError, match="its rule has `ask: true`; allow it for an hour, or remove `ask` from the pol"):
        Watched().connection.allow_in(RuleLayer.PROJECT, asked("GET https://new.test/**", by_rule=True))


def test_ends_when_another_thread_ends_it(up: FakeDocker) -> None:
    up.says(WATCH, script=f"echo {shlex.quote(STATE)}; cat > /dev/null")
    watched = Watched()
    watched.connection = Connection(
        watched.project, on_report=lambda _: watched.connection.end(), on_lost=watched.lost.append
    )
    watched.watch()
    watched.connection.watch(answers=True)
    assert watched.lost == []
