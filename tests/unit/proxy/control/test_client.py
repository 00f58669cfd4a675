import asyncio
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.proxy.control.channel import serve_control
from agent_sandbox.proxy.control.client import ask
from imports import brought_along


async def echo(question: Mapping[str, object]) -> dict[str, object]:
    return {"asked": dict(question)}


@contextmanager
def answering(path: Path, *pieces: bytes) -> Iterator[Path]:
    """A server that reads one command, sends these pieces, and then nothing until it is closed."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        closing = threading.Event()

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.recv(4096)
                for piece in pieces:
                    client.sendall(piece)
                closing.wait(30)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield path
        finally:
            closing.set()
            thread.join()


async def test_ask_returns_the_answer_of_the_proxy(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    async with await serve_control(path, {"echo": echo}):
        assert await asyncio.to_thread(ask, path, {"verb": "echo"}) == {"asked": {"verb": "echo"}}


def test_reports_a_missing_control_socket(tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        ask(tmp_path / "control.sock", {"verb": "echo"})
    what = "the proxy does not answer: [Errno 2] No such file or directory"
    assert str(raised.value.problems[0]) == f"{tmp_path}/control.sock: {what}; is it running?"


@pytest.mark.parametrize("pieces", [(), (b'{"ok": true}',)])
def test_an_incomplete_answer_times_out(tmp_path: Path, pieces: tuple[bytes, ...]) -> None:
    with answering(tmp_path / "s", *pieces) as path, pytest.raises(UserError, match="the proxy does not answer: timed"):
        ask(path, {"verb": "echo"}, seconds=0.05)


def test_the_main_module_and_the_health_check_do_not_import_asyncio() -> None:
    assert "asyncio" not in brought_along("import agent_sandbox.proxy.__main__, agent_sandbox.proxy.control.health")
