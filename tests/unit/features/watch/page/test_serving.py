import asyncio
import gc
import socket
import threading
from contextlib import suppress
from typing import Any

from agent_sandbox.features.watch.page.serving import MOST_CONNECTIONS, web_server
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


def test_closes_connections_that_do_not_end_by_themselves_when_it_ends() -> None:
    asked = threading.Event()

    async def app(_: object, receive: Any, __: object) -> None:  # noqa: ANN401 - as ASGI has it
        asked.set()
        while True:
            await receive()

    server: Any = web_server(app)  # type: ignore[arg-type]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.start(listener)
        with socket.create_connection(listener.getsockname(), timeout=60) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\n\r\n")
            assert asked.wait(60)
            server.end()
            gc.collect()  # an open one is a warning
            with suppress(ConnectionResetError):
                assert client.recv(1) == b""


async def test_closes_a_connection_that_was_accepted_as_it_ended() -> None:
    server: Any = web_server(None)  # type: ignore[arg-type]
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await server.startup(sockets=[listener])
        with socket.create_connection(listener.getsockname(), timeout=60) as client:
            for _ in range(2):  # accepted, but not yet a connection of the server's
                await asyncio.sleep(0)
            await server.shutdown(sockets=[listener])
            gc.collect()  # an open one is a warning
            with suppress(ConnectionResetError):
                assert client.recv(1) == b""


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
