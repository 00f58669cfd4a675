"""Attacks while a person allows everything, and while a person denies everything."""

from collections.abc import Iterator

import pytest

from answering import Answering, nobody_answers
from proxy_pair import Pair, start_pair
from proxy_stand import get, read_all

POLICY = """\
version: 1
domains: [allowed.test]
deny: [denied.test, {host: "*.example.test", rules: [{path: {prefix: /never}}]}]
"""
HOSTS = ("allowed.test", "denied.test", "h1.example.test", "new.test", "other.test")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy, and the server behind all its hosts."""
    with nobody_answers(), start_pair(tmp_path_factory.mktemp("answers"), POLICY, names=HOSTS) as pair:
        yield pair


@pytest.fixture(params=["allow", "deny"])  # a denied host is not asked about again
def answer(pair: Pair, request: pytest.FixtureRequest) -> Iterator[str]:
    """The answer that a person gives to every question."""
    pair.forget()
    with Answering(pair.proxy.ready["control"], request.param):
        yield request.param


def post(url: str, *fields: str, body: str = "") -> bytes:
    """Return a request to the proxy."""
    lines = (f"POST {url} HTTP/1.1", *fields, "Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


ATTACKS = {
    "a host that a deny names": get("http://denied.test/", "denied.test"),
    "a path that a deny names": get("http://h1.example.test/never/x", "h1.example.test"),
    "the same path, written otherwise": get("http://h1.example.test/%6eever/../NEVER/x", "h1.example.test"),
    "metadata of a cloud": get("http://169.254.169.254/latest/meta-data/", "169.254.169.254"),
    "loopback, as a number": get("http://2130706433/", "2130706433"),
    "loopback, by name": get("http://localhost/", "localhost"),
    "a private name": get("http://db.internal/", "db.internal"),
    "two names": get("http://new.test/", "denied.test"),
    "two lengths": post(
        "http://new.test/", "Host: new.test", "Content-Length: 3", "Transfer-Encoding: chunked", body="0\r\n\r\n"
    ),
    "a line end in a header": post("http://new.test/", "Host: new.test", "X: a\rX: b"),
    "a tunnel to a denied host": b"CONNECT denied.test:443 HTTP/1.1\r\nHost: denied.test:443\r\n\r\n",
    "no HTTP in a tunnel": b"CONNECT new.test:22 HTTP/1.1\r\nHost: new.test:22\r\n\r\nSSH-2.0-x\r\n",
}


def test_no_answer_of_a_person_lets_an_attack_through(pair: Pair, answer: str) -> None:
    for name, sent in ATTACKS.items():
        with pair.proxy.connect() as connection:
            connection.sendall(sent)
            connection.shutdown(1)
            said = read_all(connection)
        assert said.split()[1:2] != [b"200"] or said.startswith(b"HTTP/1.1 200 Connection"), (name, answer, said)
    with pair.proxy.tunnel("new.test") as connection:
        connection.sendall(b"SSH-2.0-x\r\n")
        assert read_all(connection) == b""
    assert [*pair.server.requests, *pair.plain.requests] == []


def test_a_request_to_an_unlisted_host_follows_the_persons_answer(pair: Pair, answer: str) -> None:
    with pair.proxy.tls("other.test") as stream:
        stream.sendall(get("/x", "other.test"))
        assert read_all(stream).split()[1] == {"deny": b"403", "allow": b"200"}[answer]
