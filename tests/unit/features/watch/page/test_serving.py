import socket
from contextlib import suppress

from agent_sandbox.features.watch.page.serving import MOST_CONNECTIONS
from page_stand import PageStand, open_state, question
from watching import Answers


def test_listens_only_on_loopback(served: PageStand) -> None:
    assert served._listener.getsockname()[0] == "127.0.0.1"


def test_ends_while_a_page_is_open() -> None:
    with PageStand(Answers()) as stand:
        stand.report(open_state(question()))
        news = stand.news(stand.begin())
        assert next(news)["stacks"][0]["connected"]
    assert [*news] == []


def test_refuses_connections_beyond_its_limit_and_continues(served: PageStand) -> None:
    idle = [socket.create_connection(("127.0.0.1", served.port), timeout=10) for _ in range(MOST_CONNECTIONS * 2)]
    with suppress(OSError):
        assert served.send("GET /").status == 503
    for one in idle:
        one.close()
    assert any(served.send("GET /").status == 200 for _ in range(50))


def test_refuses_an_endless_request_head(served: PageStand) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + b"X: " + b"x" * 100_000)
        assert client.recv(100).startswith(b"HTTP/1.1 400")
