"""Questions to a person: what clients can do while a question is open, and what a grant must not allow."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from types import SimpleNamespace

import dns.message
import dns.query
import dns.rcode
import pytest

from agent_sandbox.features.proxy.reports import Report, State
from agent_sandbox.features.stack.stack_list import without_directory
from agent_sandbox.features.watch.watching import connection
from agent_sandbox.features.watch.watching.desktop import Desktop
from agent_sandbox.host.command import Command
from answering import nobody_answers
from http2client import Http2Client, fields
from proxy_pair import Pair, start_pair
from proxy_stand import get, read_all, read_answer
from watching import Person

type Learn = Callable[[int], None]

# A host for each test: one that was denied is not asked about again for a while.
HOSTS = tuple(f"h{number}.example.test" for number in range(60))
POLICY = """\
version: 1
domains: [allowed.test]
deny: [denied.test, {host: "*.example.test", rules: [{path: {prefix: /never}}]}]
settings: {ask: {timeout: 60}}
"""
ASKS = """\
version: 1
domains:
  - asks.test
  - host: asks.test
    rules: [{methods: [GET, POST], path: {prefix: /admin}, ask: true, reason: it cannot be undone}]
deny: [{host: asks.test, rules: [{path: {prefix: /admin/never}}]}]
settings: {ask: {about: [unlisted], timeout: 60}}
"""
WHY = "policy.yaml:5 requires a person to allow this: it cannot be undone"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy that asks about unlisted hosts, and the server behind all its hosts."""
    names = ("allowed.test", *HOSTS)
    with nobody_answers(), start_pair(tmp_path_factory.mktemp("asking"), POLICY, names=names) as pair:
        yield pair


@pytest.fixture(scope="module")
def unused() -> Iterator[str]:
    """The hosts that no test has used."""
    return iter(HOSTS)


@pytest.fixture
def host(unused: Iterator[str]) -> str:
    """A host that is not listed."""
    return next(unused)


@pytest.fixture
def pair(started: Pair) -> Pair:
    """The proxy, with empty records."""
    started.forget()
    return started


@pytest.fixture
def person(pair: Pair) -> Iterator[Person]:
    """A person who runs `agent-sandbox watch`."""
    with Person(pair.proxy.ready["control"]) as person:
        yield person


class Client:
    """Sends requests in the background."""

    def __init__(self, pair: Pair, pool: ThreadPoolExecutor) -> None:
        self._pair, self._pool = pair, pool

    def asks(self, host: str, path: str = "/x") -> Future[tuple[int, bytes]]:
        """Send a request over its own connection."""

        def send() -> tuple[int, bytes]:
            with self._pair.proxy.tls(host) as stream:
                stream.sendall(get(path, host))
                return read_answer(stream)

        return self._pool.submit(send)


@pytest.fixture
def client(pair: Pair) -> Iterator[Client]:
    """A client that waits."""
    with ThreadPoolExecutor(8) as pool:
        yield Client(pair, pool)


def reason(answer: tuple[int, bytes]) -> str:
    """Return the reason of a denial."""
    assert answer[0] == 403
    text: str = json.loads(answer[1])["reason"]
    return text


def test_a_request_to_an_unlisted_host_waits_and_is_allowed_once(
    pair: Pair, person: Person, client: Client, host: str
) -> None:
    answer = client.asks(host, "/x?secret=1")
    (question,) = person.questions()
    shown = {"host": host, "method": "GET", "path": "/x", "query": 8, "rule": f"GET https://{host}/**"}
    assert {key: question[key] for key in shown} == shown
    assert re.fullmatch(r"127\.0\.0\.1:[1-9][0-9]{3,4}", question["client"])
    assert not pair.server.requests
    assert person.answer(question["id"], "once") == {"ok": True}
    assert answer.result(30)[0] == 200
    person.questions(0)
    line = pair.proxy.line(event="request", host=host)
    assert (line["decision"], line["rule"][:6], line["reason"].split(": ")[1]) == ("allow", "grant:", "once, by ana")
    again = client.asks(host)
    (question,) = person.questions()
    assert person.answer(question["id"], "deny") == {"ok": True}
    assert reason(again.result(30)) == f"no rule allows host {host}; a person was asked and denied it"
    assert reason(client.asks(host, "/y").result(30)).endswith("denied a request to this host in the last 10 minutes")


def test_denies_at_once_while_no_watch_is_running(pair: Pair, client: Client, host: str) -> None:
    assert reason(client.asks(host).result(30)).endswith("because no `agent-sandbox watch` is running")
    with Person(pair.proxy.ready["control"], answers=False):
        assert reason(client.asks(host).result(30)).endswith("because no `agent-sandbox watch` is running")


@pytest.fixture
def hurried(pair: Pair) -> Iterator[Pair]:
    """The proxy, which waits for a person for three seconds only."""
    pair.proxy.reload(POLICY.replace("timeout: 60", "timeout: 3"))
    yield pair
    pair.proxy.reload(POLICY)


def test_an_unanswered_question_denies_the_request_after_the_timeout(hurried: Pair, client: Client, host: str) -> None:
    with Person(hurried.proxy.ready["control"]) as person:
        answer = client.asks(host)
        person.questions()
    # Also if the person's program is killed meanwhile.
    assert reason(answer.result(30)).endswith("; a person was asked and did not answer")


def test_killing_watch_denies_its_open_questions_and_later_requests(hurried: Pair, client: Client, host: str) -> None:
    argv = (sys.executable, "-P", "-m", "agent_sandbox.proxy", "watch", "--answers")
    with subprocess.Popen(
        (*argv, f"--control={hurried.proxy.ready['control']}"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout
        assert b'"questions": []' in program.stdout.readline()
        first = client.asks(host)
        while host.encode() not in program.stdout.readline():
            pass
        program.kill()
    assert reason(first.result(30)).endswith("; a person was asked and did not answer")
    after = client.asks(host, "/after").result(30)
    assert reason(after).endswith("; nobody was asked, because no `agent-sandbox watch` is running")


def empty[T](queue: Queue[T]) -> None:
    """Forget what has arrived."""
    while not queue.empty():
        queue.get()


def test_watch_reconnects_to_a_restarted_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control = f"--control={tmp_path}/state/run/control.sock"
    argv = (sys.executable, "-P", "-m", "agent_sandbox.proxy", "watch", "--answers", control)
    command = Command(argv=argv, cwd=tmp_path)
    monkeypatch.setattr(connection, "driver", lambda: SimpleNamespace(spawn=lambda *_, **_options: command))
    monkeypatch.setattr(connection, "require_running", lambda *_: None)
    monkeypatch.setattr(connection, "sandbox_clients", lambda *_: {})
    monkeypatch.setattr(Desktop, "report", lambda *_: None)
    monkeypatch.setattr(connection, "AGAIN_SECONDS", (0.1,))
    seen, lost = Queue[Report](), Queue[str]()
    watching = connection.Connection(without_directory("app-1"), on_report=seen.put, on_lost=lost.put)

    def state_with(questions: int) -> State:
        while not (isinstance(found := seen.get(timeout=60), State) and len(found.questions) == questions):
            pass
        return found

    with nobody_answers(), ThreadPoolExecutor(2) as pool:
        thread = pool.submit(watching.watch, answers=True)
        try:
            for end in (subprocess.Popen.kill, subprocess.Popen.terminate):
                with start_pair(tmp_path, POLICY, names=HOSTS) as pair:
                    state_with(0)
                    answer = Client(pair, pool).asks(HOSTS[0])
                    (question,) = state_with(1).questions
                    watching.answer_for(question, "once")
                    assert answer.result(30)[0] == 200
                    empty(lost)  # of what came before the proxy listened
                    end(pair.proxy.process)
                    assert lost.get(timeout=60).endswith(": the proxy does not answer; trying again")
                    empty(seen)  # or the next round would take an old state for that of the next proxy
        finally:
            watching.end()
        thread.result(20)


def test_a_grant_for_a_time_ends_and_a_deny_wins_over_it(person: Person, client: Client, host: str) -> None:
    answer = client.asks(host, "/first")
    (question,) = person.questions()
    assert person.answer(question["id"], "time", seconds=8) == {"ok": True}
    assert answer.result(30)[0] == 200
    assert client.asks(host, "/second").result(30)[0] == 200
    assert client.asks(host, "/never/x").result(30)[0] == 403
    person.until(lambda: person.state["grants"])
    (grant,) = person.state["grants"]
    assert (grant["rule"], grant["who"]) == (f"GET https://{host}/**", "ana")
    person.until(lambda: not person.state["grants"])
    third = client.asks(host, "/third")
    (question,) = person.questions()
    person.answer(question["id"], "deny")
    assert third.result(30)[0] == 403


def test_a_denied_or_private_host_is_not_asked_about(pair: Pair, person: Person) -> None:
    for host in ("denied.test", "10.0.0.1", "169.254.169.254", "localhost", "[::1]"):
        answer = pair.proxy.say(get("/", host).replace(b"GET /", f"GET http://{host}/".encode(), 1))
        assert answer.startswith(b"HTTP/1.1 403 "), answer
    assert person.state["questions"] == []


def test_a_question_closes_when_its_client_disconnects(pair: Pair, person: Person, host: str) -> None:
    with pair.proxy.tls(host) as stream:
        stream.sendall(get("/leaving", host))
        (question,) = person.questions()
    person.questions(0)
    assert "this question is closed" in person.answer(question["id"], "once")["error"]
    line = pair.proxy.line(event="request", host=host, path="/leaving")
    assert (line["decision"], pair.server.requests) == ("deny", [])


def test_identical_requests_share_a_question_and_once_allows_a_single_request(
    pair: Pair, person: Person, client: Client, host: str
) -> None:
    answers = [client.asks(host, "/same") for _ in range(3)]
    person.until(lambda: [one["requests"] for one in person.state["questions"]] == [3])
    (question,) = person.state["questions"]
    assert person.answer(question["id"], "once") == {"ok": True}
    assert "closed" in person.answer(question["id"], "once")["error"]
    person.until(lambda: [one["requests"] for one in person.state["questions"]] == [2])
    assert len(pair.server.wait_for(1)) == 1
    person.answer(person.state["questions"][0]["id"], "deny")
    assert sorted(answer.result(30)[0] for answer in answers) == [200, 403, 403]


def test_of_two_people_the_first_answer_counts(pair: Pair, person: Person, client: Client, host: str) -> None:
    with Person(pair.proxy.ready["control"]) as other:
        answer = client.asks(host)
        (question,) = person.questions()
        assert other.questions() == [question | {"seconds_left": other.state["questions"][0]["seconds_left"]}]
        assert person.answer(question["id"], "deny") == {"ok": True}
        assert "this question is closed" in other.answer(question["id"], "stop")["error"]
        assert reason(answer.result(30)).endswith("; a person was asked and denied it")
        assert (other.questions(0), other.state["grants"]) == ([], [])


def test_a_waiting_http2_stream_does_not_block_other_streams(pair: Pair, person: Person, host: str) -> None:
    with pair.proxy.tls(host, alpn=("h2",)) as stream:
        client = Http2Client(stream)
        waits = client.send(*fields("/waits", host))
        (question,) = person.questions()
        assert client.status(client.send(*fields("/never/x", host))) == "403"
        person.answer(question["id"], "once")
        assert client.status(waits) == "200"


def test_a_waiting_upload_is_not_buffered_whole_and_is_forwarded_once_allowed(
    pair: Pair, person: Person, host: str
) -> None:
    size = 8_000_000

    def upload() -> int:
        with pair.proxy.tls(host) as stream:
            stream.settimeout(30)
            stream.sendall(f"POST /up HTTP/1.1\r\nHost: {host}\r\nContent-Length: {size}\r\n\r\n".encode())
            stream.sendall(b"x" * size)
            return read_answer(stream)[0]

    before = pair.proxy.memory()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(upload)
        (question,) = person.questions()
        assert (question["body"], question["rule"]) == (size, f"POST https://{host}/up")
        time.sleep(0.3)
        assert pair.proxy.memory() - before < size * 3 / 4
        person.answer(question["id"], "once")
        assert answer.result(15) == 200
    assert len(pair.server.requests[0].body) == size


def test_a_reload_decides_open_questions_again(pair: Pair, person: Person, client: Client, host: str) -> None:
    other = f"other.{host}"
    allowed, left = client.asks(host, "/a"), client.asks(host, "/b")
    denied = client.asks(other)
    person.questions(3)
    listed = f"domains: [allowed.test, {{host: {host}, rules: [{{path: {{exact: /a}}}}]}}]"
    policy = POLICY.replace("domains: [allowed.test]", listed).replace("deny: [", f"deny: [{other}, ")
    try:
        assert pair.proxy.reload(policy)["closed"] == 0
        assert allowed.result(30)[0] == 200
        assert reason(denied.result(30)).startswith("denied by ")
        # The host is listed now, so there is nothing to ask about it.
        assert reason(left.result(30)).startswith(f"host {host} is allowed, path /b is not: ")
        person.questions(0)
    finally:
        pair.proxy.reload(POLICY)


def test_a_deny_added_by_a_reload_wins_over_a_grant(pair: Pair, person: Person, client: Client, host: str) -> None:
    answer = client.asks(host)
    (question,) = person.questions()
    assert person.answer(question["id"], "stop") == {"ok": True}
    assert answer.result(30)[0] == client.asks(host, "/again").result(30)[0] == 200
    try:
        with pair.proxy.tls(host) as stream:
            stream.sendall(get("/kept", host))
            assert read_answer(stream)[0] == 200
            pair.proxy.reload(POLICY.replace("deny: [", f"deny: [{host}, "))
            assert reason(client.asks(host, "/denied").result(30)).startswith("denied by ")
            stream.sendall(get("/denied", host))
            assert b" 200 " not in read_all(stream)[:13]
        assert b"/denied" not in pair.server.raw
    finally:
        pair.proxy.reload(POLICY)
    # The grant stays in force where no deny wins over it, until a person ends it.
    assert client.asks(host, "/after").result(30)[0] == 200
    person.until(lambda: person.state["grants"])
    (grant,) = person.state["grants"]
    assert person.answer(grant["id"], "end") == {"ok": True}
    person.until(lambda: not person.state["grants"])


def test_asks_about_requests_of_clients_that_ignore_the_proxy_variables(pair: Pair, person: Person, host: str) -> None:
    query = dns.message.make_query(host, "A")
    place = pair.proxy.entrance("dns")
    assert dns.query.udp(query, place[0], port=place[1], timeout=30).answer
    nobodys = dns.query.udp(dns.message.make_query("x.invalid", "A"), place[0], port=place[1], timeout=30)
    assert nobodys.rcode() == dns.rcode.NXDOMAIN
    with pair.proxy.connect(entrance="http") as connection:
        connection.sendall(get("/x", host))
        (question,) = person.questions()
        assert question["rule"] == f"GET http://{host}/**"
        person.answer(question["id"], "deny")
        assert read_answer(connection)[0] == 403
    assert dns.query.udp(query, place[0], port=place[1], timeout=30).rcode() == dns.rcode.NXDOMAIN


def test_asks_about_the_request_inside_a_tunnel_to_another_port(pair: Pair, person: Person, host: str) -> None:
    with pair.proxy.tunnel(host, 8080) as connection:
        connection.sendall(get("/x", f"{host}:8080"))
        (question,) = person.questions()
        assert question["rule"] == f"GET http://{host}:8080/**"
        person.answer(question["id"], "deny")
        assert read_answer(connection)[0] == 403


def test_a_flood_of_questions_is_bounded_and_can_be_answered(pair: Pair, person: Person) -> None:
    before, waiting = pair.proxy.memory(), []
    for number in range(300):
        host = f"h{number}.flood.test"
        connection = pair.proxy.connect()
        connection.sendall(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        waiting.append(connection)
    person.questions(64)
    assert person.answer(person.state["questions"][0]["id"], "deny") == {"ok": True}
    assert b"too many requests wait for a person" in waiting[-1].recv(65536)
    assert pair.proxy.memory() - before < 60_000_000
    for connection in waiting:
        connection.close()
    person.questions(0)


def test_no_request_can_answer_a_question(pair: Pair, person: Person, client: Client, host: str) -> None:
    answer = client.asks(host)
    (question,) = person.questions()
    body = json.dumps({"verb": "answer", "id": question["id"], "scope": "stop"}, separators=(",", ":"))
    for to in ("agent-sandbox.internal", "localhost", "127.0.0.1", "127.0.0.1:8080"):
        for method in ("GET", "POST"):
            head = f"{method} http://{to}/answer?{body} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n"
            said = pair.proxy.say(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            assert said.split()[1] in {b"400", b"403", b"404", b"405"}, said
    assert person.state["grants"] == []
    person.answer(question["id"], "deny")
    assert answer.result(30)[0] == 403


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/%e2%80%aex%9b2J", "/%E2%80%AEx%9B2J"),
        ("/" + "x" * 5_000, f"/{'x' * 299}... (5001 characters)"),
    ],
)
def test_a_question_shows_a_shortened_path_with_control_characters_escaped(
    pair: Pair, person: Person, host: str, path: str, shown: str
) -> None:
    with pair.proxy.connect() as connection:
        connection.sendall(f"GET http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        (question,) = person.questions()
        assert question["path"] == shown
    person.questions(0)


@pytest.fixture
def learning(pair: Pair) -> Iterator[Learn]:
    """Return a function that starts learning for some seconds, or stops it."""

    def learn(seconds: int) -> None:
        done = pair.proxy.command("learn", "--seconds", str(seconds), "--who", "ana")
        assert json.loads(done.stdout) == {"ok": True}

    yield learn
    learn(0)


def test_learning_allows_requests_by_grants_until_it_ends(
    pair: Pair, client: Client, learning: Learn, host: str
) -> None:
    learning(60)
    assert client.asks(host, "/a").result(30)[0] == 200
    line = pair.proxy.line(event="request", host=host)
    assert (line["decision"], line["rule"][:6]) == ("allow", "grant:")
    assert line["reason"].endswith(": learning, by ana")
    query = dns.message.make_query(host, "A")
    place = pair.proxy.entrance("dns")
    assert dns.query.udp(query, place[0], port=place[1], timeout=30).answer
    learning(0)
    assert client.asks(host, "/a").result(30)[0] == 403
    assert dns.query.udp(query, place[0], port=place[1], timeout=30).rcode() == dns.rcode.NXDOMAIN
    pair.proxy.line(reason="learning ended: ana ended it")
    assert [line["reason"] for line in pair.proxy.lines if line["event"] == "grant"] == [
        "learning: for 1 minute, ana allowed what no rule denies",
        "learning ended: ana ended it",
    ]


def test_learning_does_not_allow_denied_requests_or_private_hosts(
    pair: Pair, client: Client, learning: Learn, host: str
) -> None:
    learning(60)
    assert client.asks(host, "/never/x").result(30)[0] == 403
    for to in ("denied.test", "10.0.0.1", "169.254.169.254", "localhost", "[::1]", "metadata.google.internal"):
        answer = pair.proxy.say(get("/", to).replace(b"GET /", f"GET http://{to}/".encode(), 1))
        assert answer.startswith(b"HTTP/1.1 403 "), answer
    for path in ("/..%2f..%2fadmin", "/%2e%2e/admin", "/a%00b"):
        assert client.asks(host, path).result(30)[0] in {400, 403}
    assert not pair.server.requests
    assert not pair.plain.requests


def test_the_end_of_learning_aborts_requests_that_it_allowed(pair: Pair, learning: Learn, host: str) -> None:
    learning(60)
    with pair.proxy.tls(host) as stream:
        stream.sendall(f"POST /up HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\n".encode() + b"x" * 10)
        end = time.monotonic() + 30
        while b"/up" not in pair.server.raw and time.monotonic() < end:
            time.sleep(0.01)
        learning(0)
        assert read_answer(stream)[0] == 403
    line = pair.proxy.line(event="request", host=host)
    assert (line["decision"], line["path"]) == ("deny", "/up")


def test_no_request_can_start_learning(pair: Pair, client: Client, host: str) -> None:
    body = json.dumps({"verb": "learn", "seconds": 60}, separators=(",", ":"))
    for to in ("agent-sandbox.internal", "localhost", "127.0.0.1"):
        head = f"POST http://{to}/learn?{body} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n"
        said = pair.proxy.say(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        assert said.split()[1] in {b"400", b"403", b"404", b"405"}, said
    assert client.asks(host).result(30)[0] == 403


@pytest.fixture
def asks(tmp_path: Path) -> Iterator[Pair]:
    """A proxy with a rule that asks about part of what another rule allows."""
    with nobody_answers(), start_pair(tmp_path, ASKS, names=("asks.test",)) as pair:
        yield pair


def test_no_spelling_of_a_request_avoids_a_rule_that_asks(asks: Pair) -> None:
    for path in ("/admin", "/ADMIN/x", "/%61dmin", "/x/../admin", "/./admin/", "/admin;a=b/x", "/Admin?x=/open"):
        answer = asks.proxy.ask("asks.test", get(path, "asks.test"))
        assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 ")), (path, answer)
        assert b"400" in answer[:13] or f"{WHY}; nobody was asked".encode() in answer, (path, answer)
    plain = asks.proxy.say(get("/", "asks.test").replace(b"GET /", b"POST http://asks.test/admin", 1))
    assert WHY.encode() in plain
    with asks.proxy.tls("asks.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        assert client.status(client.send(*fields("/aDmin", "asks.test"))) == "403"
        assert client.status(client.send(*fields("/open", "asks.test"))) == "200"
    assert [request.head.split()[:2] for request in asks.server.requests] == [[b"GET", b"/open"]]
    assert not asks.plain.requests


def test_a_grant_for_a_rule_that_asks_covers_only_its_path_and_beats_no_deny(asks: Pair) -> None:
    with ThreadPoolExecutor(2) as pool, Person(asks.proxy.ready["control"]) as person:
        client = Client(asks, pool)
        denied = client.asks("asks.test", "/admin/never")
        assert reason(denied.result(30)) == "denied by policy.yaml:6"
        answer = client.asks("asks.test", "/admin/x")
        (question,) = person.questions()
        assert (question["reason"], question["rule"]) == (WHY, "GET https://asks.test/admin/x")
        assert question["asked_by_rule"]
        assert person.answer(question["id"], "stop") == {"ok": True}
        assert answer.result(30)[0] == client.asks("asks.test", "/admin/x?again").result(30)[0] == 200
        person.questions(0)
        assert reason(client.asks("asks.test", "/admin/never").result(30)) == "denied by policy.yaml:6"
        other = client.asks("asks.test", "/admin/y")
        (question,) = person.questions()
        assert person.answer(question["id"], "deny") == {"ok": True}
        assert reason(other.result(30)).endswith("; a person was asked and denied it")
