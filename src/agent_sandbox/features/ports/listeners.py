"""Print the ports that programs in the container listen on, as JSON. Runs inside: standard library only.

With the argument `watch`, print them in a line now and whenever they change, until stdin ends. With `clients` and
addresses such as `172.18.0.3:40112`, print the commands of the programs that have connections from there instead.
"""

import json
import select
import socket
import sys
from pathlib import Path

CONNECTED, LISTENING = "01", "0A"
# 127.0.0.11: the engine's own name server, which every container has.
NAME_SERVER = "0B00007F"
# The prefix of an IPv4-mapped address, as the kernel writes it.
MAPPED = "0000000000000000FFFF0000" if sys.byteorder == "little" else "00000000000000000000FFFF"
MOST = 100
LONGEST = 200
SECONDS = 1.0


def listeners(proc: Path = Path("/proc")) -> list[dict[str, object]]:
    """Return each port with its addresses, and the command of the program if it is one of this user's."""
    found: dict[int, dict[str, object]] = {}
    for inode, address, port in _sockets(proc):
        one = found.setdefault(port, {"port": port, "addresses": [], "command": "", "inode": inode})
        one["addresses"] = sorted({*one["addresses"], address})  # type: ignore[misc]
    commands = _commands(proc, {str(one["inode"]) for one in found.values()})
    for one in found.values():
        one["command"] = commands.get(str(one.pop("inode")), "")
    return [found[port] for port in sorted(found)][:MOST]


def clients(addresses: list[str], proc: Path = Path("/proc")) -> dict[str, str]:
    """Return the command of each address that belongs to a connection of one of this user's programs."""
    wanted = {_as_kernel_writes(one): one for one in addresses}
    found = {words[9]: wanted[words[1]] for words in _rows(proc) if words[3] == CONNECTED and words[1] in wanted}
    commands = _commands(proc, set(found))
    return {found[inode]: command for inode, command in commands.items() if command}


def _as_kernel_writes(address: str) -> str:
    """Return an IPv4 address with its port as /proc/net/tcp writes it: the address in the byte order of the machine."""
    host, _, port = address.rpartition(":")
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{int(port):04X}"


def _sockets(proc: Path):  # type: ignore[no-untyped-def]  # noqa: ANN202 - read by the container's Python alone
    for words in _rows(proc):
        address, _, port = words[1].rpartition(":")
        if words[3] == LISTENING and address != NAME_SERVER:
            yield words[9], "any" if not address.strip("0") else "loopback", int(port, 16)


def _rows(proc: Path):  # type: ignore[no-untyped-def]  # noqa: ANN202 - as above
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for words in map(str.split, lines):
            # A program may use an IPv6 socket for an IPv4 connection.
            yield [words[0], words[1].removeprefix(MAPPED), *words[2:]]


def _commands(proc: Path, inodes: set[str]) -> dict[str, str]:
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found = {}
    for folder in proc.glob("[0-9]*"):
        try:
            for handle in (folder / "fd").iterdir():
                target = str(handle.readlink())
                if target in wanted:
                    # Only the start: it may have megabytes, and a program may have a socket open a million times.
                    with (folder / "cmdline").open("rb", buffering=0) as file:
                        words = file.read(LONGEST * 4).replace(b"\0", b" ").decode("utf-8", "replace")
                    found[wanted[target]] = words.strip()[:LONGEST]
        except OSError:
            continue
    return found


def watch(proc: Path = Path("/proc"), *, seconds: float = SECONDS) -> None:
    """Print the ports whenever they change. Programs are looked for only then: that takes longer."""
    before = None
    while True:
        now = {port for _, _, port in _sockets(proc)}
        if now != before:
            sys.stdout.write(json.dumps(listeners(proc)) + "\n")
            sys.stdout.flush()
            before = now
        if select.select([sys.stdin], [], [], seconds)[0]:
            return


if __name__ == "__main__":
    if sys.argv[1:] == ["watch"]:
        watch()
    elif sys.argv[1:2] == ["clients"]:
        sys.stdout.write(json.dumps(clients(sys.argv[2:])))
    else:
        sys.stdout.write(json.dumps(listeners()))
