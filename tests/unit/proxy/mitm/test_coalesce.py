from __future__ import annotations

from mitmproxy.connection import Server
from mitmproxy.proxy.commands import CloseConnection, Command, SendData

from agent_sandbox.proxy.mitm.coalesce import coalesce

ONE, OTHER = Server(address=("a.test", 80)), Server(address=("b.test", 80))


def written(*commands: Command) -> list[tuple[Server, bytes] | Command]:
    """Tell what is sent from what is done."""
    return [
        (command.connection, command.data)  # type: ignore[misc] # there are servers here alone
        if isinstance(command, SendData)
        else command
        for command in coalesce(commands)
    ]


def test_what_goes_to_one_connection_goes_at_once() -> None:
    assert written(SendData(ONE, b"a"), SendData(ONE, b"b"), SendData(OTHER, b"c")) == [(ONE, b"ab"), (OTHER, b"c")]


def test_nothing_is_sent_later_than_what_stood_behind_it() -> None:
    close = CloseConnection(ONE)
    assert written(SendData(ONE, b"a"), close, SendData(ONE, b"b")) == [(ONE, b"a"), close, (ONE, b"b")]


def test_what_sends_nothing_is_not_held_up() -> None:
    commands = iter([CloseConnection(ONE), CloseConnection(OTHER)])
    assert isinstance(next(coalesce(commands)), CloseConnection)
    assert len(list(commands)) == 1
