import asyncio
import errno
import socket
from types import SimpleNamespace
from typing import cast

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.proxy.net.sockets import address_of, listen, listen_udp

NOT_OURS = "this machine does not have this address; use 127.0.0.1, or 0.0.0.0 for all addresses"
NOT_US = "permission denied; choose a port above 1023"


async def serve(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    """Do nothing."""


async def test_a_cancelled_connection_closes_without_a_message_and_a_failed_one_with_one() -> None:
    heard: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: heard.append(said))
    begun, fails = asyncio.Event(), asyncio.Event()

    async def talk(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        begun.set()
        await fails.wait()
        raise ValueError("a fault")

    async with await listen(talk, "127.0.0.1", 0) as server:
        for is_fault in (False, True):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            await begun.wait()
            begun.clear()
            (task,) = [one for one in asyncio.all_tasks() if one.get_coro().__name__ == "talk"]  # type: ignore[union-attr]
            if is_fault:
                fails.set()
            else:
                task.cancel()
            assert await reader.read() == b""
            writer.close()
            assert [str(said["exception"]) for said in heard] == ["a fault"] * is_fault


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError("could not bind on any address out of [('10.1.2.3', 80)]"), NOT_OURS),
        (OSError(errno.EADDRNOTAVAIL, "x"), NOT_OURS),
        (
            OSError(errno.EADDRINUSE, "x"),
            "the port is in use; stop the program that uses it, or choose another port; 0 takes any",
        ),
        (OSError(errno.EACCES, "x"), NOT_US),
        (OSError(errno.EPERM, "x"), NOT_US),
        (
            socket.gaierror(socket.EAI_NONAME, "x"),
            "not an address, and not a resolvable host name; such as 127.0.0.1:8080",
        ),
        (OSError(errno.EMFILE, "x"), "Too many open files"),
    ],
)
async def test_reports_why_listening_failed_and_how_to_fix_it(
    monkeypatch: pytest.MonkeyPatch, error: OSError, why: str
) -> None:
    async def start_server(*_: object, **__: object) -> asyncio.Server:
        raise error

    monkeypatch.setattr(asyncio, "start_server", start_server)
    with pytest.raises(UserError) as caught:
        await listen(serve, "10.1.2.3", 80)
    assert str(caught.value) == f"--listen 10.1.2.3:80: cannot listen: {why}"


@pytest.mark.parametrize(("name", "wanted"), [(("127.0.0.1", 80), "127.0.0.1:80"), (("::1", 80, 0, 0), "[::1]:80")])
def test_address_of_writes_ipv6_addresses_in_brackets(name: tuple[str, int], wanted: str) -> None:
    server = SimpleNamespace(sockets=[SimpleNamespace(getsockname=lambda: name)])
    assert address_of(cast("asyncio.Server", server)) == wanted


async def test_listen_udp_uses_the_given_address() -> None:
    transport = await listen_udp(asyncio.DatagramProtocol, "127.0.0.1", 0, option="--dns")
    assert transport.get_extra_info("sockname")[0] == "127.0.0.1"
    transport.close()


async def test_listen_udp_reports_a_port_that_is_in_use() -> None:
    first = await listen_udp(asyncio.DatagramProtocol, "127.0.0.1", 0, option="--dns")
    port = first.get_extra_info("sockname")[1]
    with pytest.raises(UserError) as caught:
        await listen_udp(asyncio.DatagramProtocol, "127.0.0.1", port, option="--dns")
    first.close()
    why = "cannot listen: the port is in use; stop the program that uses it, or choose another port; 0 takes any"
    assert str(caught.value) == f"--dns 127.0.0.1:{port}: {why}"
