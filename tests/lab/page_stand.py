"""The page of `agent-sandbox ui` on loopback, with a fake connection to a stack, and clients that send anything."""

import http.client
import json
import socket
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from agent_sandbox.features.proxy.reports import Grant, Question, Report, State, read_report
from agent_sandbox.features.watch.page.app import Answers, Server, StackApi
from agent_sandbox.features.watch.page.feed import Feed
from agent_sandbox.features.watch.page.guard import ADDRESS
from agent_sandbox.features.watch.page.serving import web_server
from agent_sandbox.features.watch.page.sessions import Sessions
from agent_sandbox.features.watch.page.today import Today
from agent_sandbox.features.watch.watching.connection import HOUR, SCOPES
from agent_sandbox.features.watch.watching.rules import Rules
from watching import RecordedPorts

NAME = "app-1"
NOWHERE = Path("/nowhere")


class Said(NamedTuple):
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    text: str


class PageStand:
    """The server in a thread; `begin` gives it a client with a session."""

    def __init__(self, answers: Answers, rules: Rules | None = None, today: Today | None = None) -> None:
        self.now, self.given = 100.0, list[tuple[object, ...]]()
        self.feed, self.sessions = Feed(), Sessions(clock=lambda: self.now)
        self._listener = socket.create_server((ADDRESS, 0))
        self.port = self._listener.getsockname()[1]
        self._page = Server(feed=self.feed, sessions=self.sessions)
        self.add(NAME, answers, rules, today)
        self._server = web_server(self._page.app(self.port))

    def __enter__(self) -> Self:
        """Start it. Its socket listens already."""
        self._server.start(self._listener)
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.feed.end()
        self._server.end()
        self._listener.close()

    def add(self, name: str, answers: Answers, rules: Rules | None = None, today: Today | None = None) -> None:
        """Show one more stack."""
        rules = rules or Rules(NOWHERE, lambda *_: None)
        today = today or Today(NOWHERE, lambda _: None)
        ports = RecordedPorts(self.given)
        self._page.add(name, StackApi(answers=answers, ports=ports, rules=rules, today=today))

    def report(self, found: Report, *, name: str = NAME) -> None:
        """Report this to the page, as the connection of a stack does."""
        self.feed.report(name, found)

    @property
    def authority(self) -> str:
        """Its own name."""
        return f"{ADDRESS}:{self.port}"

    @property
    def address(self) -> str:
        """A new address that is good once."""
        return f"http://{self.authority}/#{self.sessions.new_token()}"

    def send(self, line: str, headers: Mapping[str, str | None] | None = None, *, body: object = None) -> Said:
        """Send METHOD PATH as the page would, but with these headers; None leaves one out."""
        method, path = line.split(" ")
        usual = {"Host": self.authority, **({"Origin": f"http://{self.authority}"} if method == "POST" else {})}
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        client = http.client.HTTPConnection(ADDRESS, self.port, timeout=30)
        client.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {**usual, **(headers or {}), "Content-Length": str(len(content))}.items():
            if value is not None:
                client.putheader(name, value)
        client.endheaders(content)
        answer = client.getresponse()
        found = Said(answer.status, dict(answer.headers.items()), answer.read().decode())
        client.close()
        return found

    def begin(self) -> dict[str, str | None]:
        """Return the headers of a client with a session."""
        said = self.send("POST /api/session", body={"token": self.sessions.new_token()})
        return {"Cookie": said.headers["set-cookie"].split(";")[0], "Agent-Sandbox-Key": json.loads(said.text)["key"]}

    def news(self, headers: Mapping[str, str | None], *, after: str = "0") -> Generator[dict[str, Any]]:
        """Yield the news until the server ends them."""
        client = http.client.HTTPConnection(ADDRESS, self.port, timeout=30)
        sent = {name: value for name, value in headers.items() if value is not None}
        client.request("GET", f"/api/news?after={after}", headers=sent)
        answer = client.getresponse()
        assert answer.status == 200, answer.read()
        try:
            while line := answer.readline():
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        finally:
            answer.close()
            client.close()


class SocketConnection:
    """The connection of `agent-sandbox ui`, to the control socket of a proxy on this machine."""

    def __init__(self, control: str) -> None:
        self.path = Path(control)
        self._socket = socket.socket(socket.AF_UNIX)

    @contextmanager
    def to(self, stand: PageStand) -> Iterator[None]:
        """Subscribe, and pass everything on until the block ends."""
        self._socket.connect(str(self.path))
        self._say({"verb": "subscribe", "answers": True})
        reader = threading.Thread(target=self._read, args=(stand,), daemon=True)
        reader.start()
        try:
            yield
        finally:
            self._socket.shutdown(socket.SHUT_RDWR)
            reader.join(30)
            self._socket.close()

    def _read(self, stand: PageStand) -> None:
        with self._socket.makefile("r", encoding="utf-8") as lines:
            for line in lines:
                if (found := read_report(line)) is not None:
                    stand.report(found)

    def _say(self, words: Mapping[str, object]) -> None:
        self._socket.sendall(json.dumps(words).encode() + b"\n")

    def answer(self, number: int, scope: str, *, seconds: int | None = None) -> None:
        """Send an answer."""
        words = {"verb": "answer", "id": number, "scope": scope, "who": "ana"}
        self._say({**words, "seconds": seconds} if seconds else words)

    def answer_for(self, question: Question, word: str) -> None:
        """Answer with one of the words of `SCOPES`."""
        self.answer(question.id, SCOPES[word], seconds=HOUR if word == "hour" else None)


def question(number: int = 3, **more: Any) -> Question:
    """Return a question about GET https://new.test/x."""
    usual = {
        "method": "GET",
        "url": "https://new.test/x",
        "host": "new.test",
        "details": "",
        "reason": "no rule allows host new.test",
        "services": (),
        "rule": "GET https://new.test/**",
        "requests": 1,
        "seconds_left": 60,
    }
    return Question(id=number, **{**usual, **more})


def open_state(*questions: Question, grants: tuple[Grant, ...] = ()) -> State:
    """Return a state with these questions."""
    return State(ask="unlisted", questions=questions, grants=grants)


def record(number: int = 0, **more: object) -> dict[str, object]:
    """Return a decision of the proxy."""
    usual: dict[str, object] = {"time": "2026-01-02T10:00:00.000Z", "event": "request", "decision": "deny"}
    asked = {"method": "GET", "scheme": "https", "host": "new.test", "port": 443, "path": f"/{number}"}
    return {**usual, **asked, "reason": "no rule allows host new.test", "cause": "host", "status": 403, **more}
