import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent_sandbox.features.proxy.reports import Question, State
from agent_sandbox.features.watch.watching.added_notes import AddedNotes, risks_of, sandbox_clients
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import open_project
from fake_docker import FakeDocker
from fake_stack import with_containers
from table_tests import each

CLIENT, OTHER = "172.18.0.3:40112", "172.18.0.3:40113"


def asked(number: int = 1, client: str = CLIENT, **more: str) -> Question:
    usual: dict[str, Any] = {"method": "GET", "url": "https://new.test/x", "rule": "GET https://new.test/**"}
    return Question(
        id=number,
        host="new.test",
        details="",
        reason="",
        services=(),
        requests=1,
        seconds_left=60,
        client=client,
        **usual | more,
    )


class Sandbox:
    """Says which program has a connection, and counts how often it was asked."""

    def __init__(self, *answers: Mapping[str, str] | Exception) -> None:
        self._answers, self.asked = [*answers], list[tuple[str, ...]]()
        self.found, self.looked = threading.Event(), threading.Event()
        self.notes = AddedNotes(self.look, self.found.set, pause=0)

    def look(self, addresses: tuple[str, ...]) -> Mapping[str, str]:
        """Give the next answer."""
        self.asked.append(addresses)
        answer = self._answers.pop(0)
        if not self._answers:
            self.looked.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def senders(self, *questions: Question) -> list[str]:
        """Return what is known about the senders now."""
        return [one.sender for one in self.notes.to(State(questions=questions)).questions]


def test_looks_up_the_sender_once_and_adds_it_when_known() -> None:
    sandbox = Sandbox({CLIENT: "curl -s"})
    assert sandbox.senders(asked()) == [""]
    assert sandbox.found.wait(30)
    assert sandbox.senders(asked(), asked(2)) == ["curl -s", "curl -s"]
    assert sandbox.asked == [(CLIENT,)]


def test_forgets_a_sender_with_its_question() -> None:
    sandbox = Sandbox({CLIENT: "curl -s"}, {CLIENT: "node"})
    sandbox.senders(asked())
    assert sandbox.found.wait(30)
    assert sandbox.senders() == []
    sandbox.found.clear()
    assert sandbox.senders(asked()) == [""]
    assert sandbox.found.wait(30)
    assert sandbox.senders(asked()) == ["node"]


@pytest.mark.parametrize("answer", [{}, UserError([Problem(where="x", what="gone")]), OSError("gone")])
def test_questions_are_shown_without_a_sender_if_the_sandbox_does_not_say_it(
    answer: Mapping[str, str] | Exception,
) -> None:
    sandbox = Sandbox(answer)
    sandbox.senders(asked())
    assert sandbox.looked.wait(30)
    for _ in range(100):
        assert sandbox.senders(asked(), asked(2, client="")) == ["", ""]
    assert (sandbox.asked, sandbox.found.is_set()) == ([(CLIENT,)], False)


def test_looks_up_questions_that_arrive_meanwhile_together() -> None:
    first, second = threading.Event(), threading.Event()
    sandbox = Sandbox({CLIENT: "a"}, {OTHER: "b"})
    look = sandbox.look

    def slow(addresses: tuple[str, ...]) -> Mapping[str, str]:
        first.set()
        assert second.wait(30)
        return look(addresses)

    sandbox.notes = AddedNotes(slow, sandbox.found.set, pause=0)
    sandbox.senders(asked())
    assert first.wait(30)
    sandbox.senders(asked(), asked(2, OTHER), asked(3, "172.18.0.3:40114"))
    second.set()
    assert sandbox.looked.wait(30)
    assert sandbox.asked == [(CLIENT,), (OTHER, "172.18.0.3:40114")]


@each(
    ("question", "risks"),
    [
        (asked(), ()),
        (asked(rule="POST https://new.test/x"), ("it writes: the agent can send data out this way",)),
        (
            asked(rule="", method="DELETE", url="http://me.github.io:8080/x"),
            (
                "it writes: the agent can send data out this way",
                "not encrypted: anyone on the network path can read and change it",
                "anyone can get a name below github.io: check that this one is not a stranger's",
            ),
        ),
        (asked(rule="", method="M-SEARCH?"), ()),
    ],
)
def test_notes_the_risks_of_what_would_be_allowed(question: Question, risks: tuple[str, ...]) -> None:
    assert risks_of(question) == risks


def test_notes_a_site_that_accepts_uploads_from_anyone() -> None:
    (_, upload) = risks_of(asked(rule="POST https://transfer.sh/x"))
    assert upload.startswith("transfer.sh ")
    notes = AddedNotes(lambda _: {}, lambda: None)
    (question,) = notes.to(State(questions=(replace(asked(rule="POST https://transfer.sh/x"), client=""),))).questions
    assert question.notes[1] == f"careful: {upload}"[:160] + ("..." if len(upload) > 151 else "")


@pytest.mark.usefixtures("project")
def test_runs_the_lookup_in_the_agent_container_as_its_user(docker: FakeDocker) -> None:
    with_containers(docker, proxy="healthy", agent="healthy")
    docker.says("clients", out=json.dumps({CLIENT: "curl\x1b", OTHER: "x"}))
    project = open_project(None, cwd=Path.cwd())
    assert sandbox_clients(project, (CLIENT, "--help", "[::1]:3")) == {CLIENT: "curl\\x1b"}
    (call,) = [call for call in docker.calls if call.startswith("exec ")]
    assert call.startswith("exec agent0000000 python3 -I -c ")
    assert docker.calls[-1].endswith(f" clients {CLIENT}")
    assert sandbox_clients(project, ("--help",)) == {}


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("state", ["exited", "paused"])
def test_does_not_ask_a_stopped_container(docker: FakeDocker, state: str) -> None:
    with_containers(docker, proxy="healthy", agent=state)
    assert sandbox_clients(open_project(None, cwd=Path.cwd()), (CLIENT,)) == {}
