"""Serve the page on a random port of 127.0.0.1 until Ctrl-C."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import override

import uvicorn

from agent_sandbox.features.traffic.audit_log import each_record
from agent_sandbox.features.watch.page.app import Server, StackApi
from agent_sandbox.features.watch.page.feed import Feed
from agent_sandbox.features.watch.page.guard import ADDRESS, Guard
from agent_sandbox.features.watch.page.sessions import Sessions
from agent_sandbox.features.watch.page.today import Today
from agent_sandbox.features.watch.watching.connection import Connection
from agent_sandbox.features.watch.watching.rules import Rules
from agent_sandbox.features.watch.watching.watched_stacks import Find, WatchedStacks
from agent_sandbox.project.project import Project

MOST_CONNECTIONS = 64
END_SECONDS = 5.0
SIGNAL_SECONDS = 0.2


def serve(
    first: Sequence[Project],
    find: Find,
    *,
    asks: bool,
    on_address: Callable[[str], None],
    again: Iterable[str],
) -> None:
    """Serve the page of these stacks, and of those that `find` returns later.

    `on_address` gets its address, and another one for each line of `again`.
    """
    feed, sessions = Feed(), Sessions()
    page = Server(feed=feed, sessions=sessions)
    watched = WatchedStacks(partial(_connect, page, feed), answers=True, asks=asks)
    with socket.create_server((ADDRESS, 0)) as listener:
        port = listener.getsockname()[1]
        server = web_server(page.app(port))

        def offer() -> None:
            on_address(f"http://{ADDRESS}:{port}/#{sessions.new_token()}")

        def offer_again() -> None:
            with suppress(OSError):  # in the background, the terminal is not ours to read
                for _ in again:
                    offer()

        def follow() -> None:
            watched.follow(first, find)

        try:
            server.start(listener)
            offer()
            for work in (follow, offer_again):
                threading.Thread(target=work, daemon=True).start()
            server.wait()
        finally:
            watched.end()
            feed.end()
            server.end()


def _connect(page: Server, feed: Feed, project: Project) -> Connection:
    """Show a stack on the page, and return its connection."""
    name, root = project.name, project.root
    report, lost, ports = (partial(one, name) for one in (feed.report, feed.lost, feed.report_ports))
    connection = Connection(project, on_report=report, on_lost=lost, on_ports=ports)
    today = Today(root, partial(each_record, file=None, path=root))
    rules = Rules(root, connection.write_rule)
    page.add(name, StackApi(answers=connection, ports=connection.ports, rules=rules, today=today))
    return connection


def web_server(app: Guard) -> "PageServer":
    """Return the server of an application."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    return PageServer(config)


class PageServer(uvicorn.Server):
    """Runs in another thread, so that Python handles Ctrl-C in the main one."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._over = threading.Event()

    def start(self, listener: socket.socket) -> None:
        """Start serving in a thread."""

        def serve() -> None:
            try:
                self.run(sockets=[listener])
            finally:
                self._over.set()

        threading.Thread(target=serve, daemon=True).start()

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close every connection, also those that do not end by themselves."""
        loop = asyncio.get_running_loop()
        for listener in sockets or ():
            loop.remove_reader(listener)
        await asyncio.sleep(0)  # once its server is closed, asyncio leaves a connection open that it has just accepted
        await super().shutdown(sockets)
        for connection in self.server_state.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)  # the sockets close in the next turn

    def wait(self) -> None:
        """Wait for the server to end. Polls, because a signal to another thread would not end an endless wait."""
        while not self._over.wait(SIGNAL_SECONDS):
            pass

    def end(self) -> None:
        """Stop the server, and wait until it has stopped."""
        while not (self.started or self._over.is_set()):
            time.sleep(0.01)
        self.should_exit = True
        self._over.wait(END_SECONDS)
