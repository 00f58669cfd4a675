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


def test_joins_consecutive_data_for_the_same_connection() -> None:
    assert written(SendData(ONE, b"a"), SendData(ONE, b"b"), SendData(OTHER, b"c")) == [(ONE, b"ab"), (OTHER, b"c")]


def test_keeps_the_order_of_data_and_other_commands() -> None:
    close = CloseConnection(ONE)
    assert written(SendData(ONE, b"a"), close, SendData(ONE, b"b")) == [(ONE, b"a"), close, (ONE, b"b")]


def test_yields_other_commands_without_reading_ahead() -> None:
    commands = iter([CloseConnection(ONE), CloseConnection(OTHER)])
    assert isinstance(next(coalesce(commands)), CloseConnection)
    assert len(list(commands)) == 1
