"""Ports of this machine, forwarded to relay.py in another process."""

import asyncio
import errno
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.container import Container
from agent_sandbox.features.ports import forward as module
from agent_sandbox.features.ports.forward import ADDRESS, ADDRESS_6, Forward, Ports, forward
from agent_sandbox.features.ports.relay import Relay
from agent_sandbox.host.command import Command
from agent_sandbox.problems import UserError

AGENT = Container(id="agent", service="agent", image="x", state="running")
BOX = (sys.executable, "-I", str(Path(module.__file__).with_name("relay.py")))


def free_port() -> int:
    with socket.socket() as one:
        one.bind((ADDRESS, 0))
        return int(one.getsockname()[1])


async def say_hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello " + await reader.readline())
    writer.close()


@pytest.mark.parametrize("service", ["", "localhost"])
def test_forwards_a_port_of_this_machine_to_a_port_in_the_sandbox_or_of_a_service(service: str) -> None:
    async def main() -> tuple[bytes, bool, Forward]:
        async with await asyncio.start_server(say_hello, ADDRESS, 0) as server:
            inside = server.sockets[0].getsockname()[1]
            opened: asyncio.Queue[Forward] = asyncio.Queue()
            silent: asyncio.Queue[Forward] = asyncio.Queue()
            wanted = [Forward(here=0, inside=inside, service=service), Forward(here=0, inside=1, service=service)]
            running = asyncio.create_task(
                forward(Command(argv=BOX), wanted, opened=opened.put_nowait, refused=silent.put_nowait)
            )
            first, second = await opened.get(), await opened.get()
            reader, writer = await asyncio.open_connection(ADDRESS, first.here)
            writer.write(b"you\n")
            answer = await reader.read()
            writer.close()
            reader, writer = await asyncio.open_connection(ADDRESS, second.here)
            try:
                refused = await reader.read() == b""
            except ConnectionResetError:
                refused = True
            writer.close()
            unanswered = await silent.get()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return answer, refused, unanswered

    assert asyncio.run(main()) == (b"hello you\n", True, Forward(here=0, inside=1, service=service))


def listening_on(port: int) -> set[str]:
    """Return the addresses on which the kernel accepts connections to a port, as it writes them."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    places = (row[1].split(":") for row in rows if row[3] == "0A")
    return {address for address, number in places if int(number, 16) == port}


# As the kernel writes them; a machine without IPv6 has only the first.
HAS_IPV6 = any("00000000000000000000000000000001 " in one.read_text() for one in Path("/proc/net").glob("if_inet6"))
LOOPBACK = {"0100007F", "00000000000000000000000001000000"} if HAS_IPV6 else {"0100007F"}


def test_listens_only_on_loopback() -> None:
    found: list[set[str]] = []
    wanted = [Forward(here=0, inside=80), Forward(here=free_port(), inside=80)]
    asyncio.run(forward(Command(argv=("true",)), wanted, opened=lambda one: found.append(listening_on(one.here))))
    assert found == [LOOPBACK] * 2


def test_opens_and_closes_ports_with_their_connections_while_running() -> None:
    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"here")
        with suppress(ConnectionResetError):
            await reader.read()
        writer.close()

    async def main() -> tuple[object, ...]:
        async with await asyncio.start_server(wait, ADDRESS, 0) as server, asyncio.timeout(20):
            inside = server.sockets[0].getsockname()[1]
            live: asyncio.Queue[Ports] = asyncio.Queue()
            running = asyncio.create_task(forward(Command(argv=BOX), [], opened=lambda _: None, live=live.put))
            ports = await live.get()
            one = await ports.open(Forward(here=0, inside=inside))
            before = ports.inside
            reader, writer = await asyncio.open_connection(ADDRESS, one.here)
            said = await reader.readexactly(4)
            closed = ports.close(one.here), ports.close(one.here), ports.inside
            try:
                rest = await reader.read()
            except ConnectionResetError:
                rest = b""
            writer.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(ADDRESS, one.here)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return before == {inside}, said, closed, rest

    assert asyncio.run(main()) == (True, b"here", (True, False, set()), b"")


def test_uses_the_next_free_port_if_a_port_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = socket.create_server((ADDRESS, 0))
    port = busy.getsockname()[1]
    opened: list[Forward] = []
    stop = ("sh", "-c", "exec <&-; echo it ended >&2")
    with busy:
        said = asyncio.run(forward(Command(argv=stop), [Forward(here=port, inside=80)], opened=opened.append))
        assert opened[0].here > port
        assert (opened[0].taken, opened[0].is_ours) == (f"127.0.0.1:{port}", False)
        assert said == "it ended"
        monkeypatch.setattr(module, "ATTEMPTS", 0)
        with pytest.raises(UserError) as raised:
            asyncio.run(forward(Command(argv=stop), [Forward(here=port, inside=80)], opened=opened.append))
    assert str(raised.value).startswith(f"{port}: this port and the 0 above it are in use on this machine")


type Rows = list[tuple[set[str], tuple[int, str] | None]]
# The addresses in use, for the wanted port 5000; the port that is opened, and what it says was taken.
IN_USE: Rows = [
    (set(), (5000, "")),
    ({"127.0.0.1:5000"}, (5001, "127.0.0.1:5000")),
    ({"127.0.0.1:5000", "::1:5000"}, (5001, "127.0.0.1:5000")),
    ({"::1:5000"}, (5000, "[::1]:5000")),
    ({"127.0.0.1:5000", "::1:5001", "127.0.0.1:5002"}, (5003, "127.0.0.1:5000")),
    ({f"127.0.0.1:{port}" for port in range(5000, 5021)}, None),
    ({"no IPv6"}, (5000, "")),
    ({"no IPv6", "127.0.0.1:5000"}, (5001, "127.0.0.1:5000")),
]


@pytest.mark.parametrize(("used", "expected"), IN_USE)
def test_says_which_address_was_in_use(
    used: set[str], expected: tuple[int, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening: list[str] = []

    async def start_server(_accept: object, address: str, port: int, **_options: object) -> object:
        if f"{address}:{port}" in used:
            raise OSError(errno.EADDRINUSE, "in use")
        if address == ADDRESS_6 and "no IPv6" in used:
            raise OSError("could not bind on any address")
        listening.append(f"{address}:{port}")
        sockets = [SimpleNamespace(getsockname=lambda: (address, port))]
        return SimpleNamespace(sockets=sockets, close=lambda: listening.remove(f"{address}:{port}"))

    monkeypatch.setattr(asyncio, "start_server", start_server)
    ports = Ports(cast("Relay", None))
    if expected is None:
        with pytest.raises(UserError, match="5000: this port and the 20 above it are in use on this machine"):
            asyncio.run(ports.open(Forward(here=5000, inside=80)))
        return
    here, taken = expected
    found = asyncio.run(ports.open(Forward(here=5000, inside=80)))
    assert found == Forward(here=here, inside=80, taken=taken)
    both = [f"127.0.0.1:{here}", f"::1:{here}"]
    assert listening == (both[:1] if {"no IPv6", f"::1:{here}"} & used else both)
    used.update(listening)
    assert asyncio.run(ports.open(Forward(here=here, inside=81))).is_ours
    ports.close_all()
    assert listening == []


def test_answers_on_both_addresses_and_leaves_one_to_another_program() -> None:
    async def main() -> list[bytes]:
        async with await asyncio.start_server(say_hello, ADDRESS, 0) as server, asyncio.timeout(30):
            inside = server.sockets[0].getsockname()[1]
            live: asyncio.Queue[Ports] = asyncio.Queue()
            running = asyncio.create_task(forward(Command(argv=BOX), [], opened=lambda _: None, live=live.put))
            ports, said = await live.get(), []

            async def ask(address: str, port: int) -> None:
                reader, writer = await asyncio.open_connection(address, port)
                writer.write(b"you\n")
                said.append(await reader.read())
                writer.close()

            both = (await ports.open(Forward(here=0, inside=inside))).here
            await ask(ADDRESS, both)
            if HAS_IPV6:
                await ask(ADDRESS_6, both)
                async with await asyncio.start_server(lambda _, other: other.close(), ADDRESS_6, 0) as other:
                    port = other.sockets[0].getsockname()[1]
                    found = await ports.open(Forward(here=port, inside=inside))
                    assert found == Forward(here=port, inside=inside, taken=f"[::1]:{port}")
                    await ask(ADDRESS, port)
                    await ask(ADDRESS_6, port)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return said

    both = [b"hello you\n", b"hello you\n", b""] if HAS_IPV6 else []
    assert asyncio.run(main()) == [b"hello you\n", *both]


def test_explains_that_ports_below_1024_need_root(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_args: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(asyncio, "start_server", refuse)
    with pytest.raises(UserError) as raised:
        asyncio.run(forward(Command(argv=("cat",)), [Forward(here=80, inside=80)], opened=lambda _one: None))
    (problem,) = raised.value.problems
    assert (problem.what, problem.hint) == (
        "cannot listen on 127.0.0.1:80: permission denied",
        "ports below 1024 are for root: use another one, as in 8080:80",
    )


def test_closes_all_ports_if_the_sandbox_breaks_the_protocol() -> None:
    opened: list[Forward] = []
    evil = ("sh", "-c", "printf '\\001\\0\\0\\0\\1\\0\\0\\0\\2\\0\\26'; cat")
    with pytest.raises(UserError) as raised:
        asyncio.run(forward(Command(argv=evil), [Forward(here=free_port(), inside=80)], opened=opened.append))
    assert "(it opens a connection), so all ports were closed" in str(raised.value)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((ADDRESS, opened[0].here), timeout=5)


def test_says_why_the_relay_cannot_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"^docker: the docker command was not found; "):
        asyncio.run(forward(DRIVER.spawn(AGENT, "relay", stdin=True), [], opened=lambda _: None))


def test_closes_connections_when_the_sandbox_ends(tmp_path: Path) -> None:
    """Stopping a stack ends the Docker command: clients are disconnected, and nothing waits."""

    async def main() -> tuple[bytes, str]:
        connected = asyncio.Event()

        async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connected.set()
            await reader.read()
            writer.close()

        async with await asyncio.start_server(wait, ADDRESS, 0) as server, asyncio.timeout(20):
            inside = server.sockets[0].getsockname()[1]
            opened: asyncio.Queue[Forward] = asyncio.Queue()
            box = ("sh", "-c", 'echo $$ >pid; exec "$@" 2>/dev/null', "sh", *BOX)
            wanted = [Forward(here=0, inside=inside)]
            running = asyncio.create_task(forward(Command(argv=box, cwd=tmp_path), wanted, opened=opened.put_nowait))
            reader, writer = await asyncio.open_connection(ADDRESS, (await opened.get()).here)
            await connected.wait()
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
            said = await running
            try:
                rest = await reader.read()
            except ConnectionResetError:
                rest = b""
            writer.close()
            return rest, said

    assert asyncio.run(main()) == (b"", "")


@pytest.mark.parametrize("filled", ["stdout", "stderr"])
def test_ends_a_sandbox_process_that_fills_a_pipe(monkeypatch: pytest.MonkeyPatch, filled: str) -> None:
    monkeypatch.setattr(module, "GRACE", 0.05)
    box = (sys.executable, "-c", f"import sys; sys.{filled}.write('A' * (1 << 21) + '\\nlast\\n')")

    async def main() -> str:
        async with asyncio.timeout(20):
            return await forward(Command(argv=box), [], opened=lambda _: None)

    if filled == "stderr":
        assert asyncio.run(main()) == "last"
    else:
        with pytest.raises(UserError, match="broke the protocol"):
            asyncio.run(main())


def test_a_port_that_opens_while_the_relay_ends_does_not_stay_open() -> None:
    async def left(steps: int) -> set[str]:
        ports, port = Ports(cast("Relay", None)), free_port()
        opening = asyncio.create_task(ports.open(Forward(here=port, inside=1)))
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        ports.close_all()
        await asyncio.gather(opening, return_exceptions=True)
        return listening_on(port)

    assert [asyncio.run(left(steps)) for steps in range(20)] == [set()] * 20
