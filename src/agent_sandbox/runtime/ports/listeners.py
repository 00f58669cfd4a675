"""Print the ports that programs in the container listen on, as JSON. Runs inside: standard library only.

With the argument `watch`, print them in a line now and whenever they change, until stdin ends.
"""

import json
import select
import sys
from pathlib import Path

LISTENING = "0A"
# 127.0.0.11: the engine's own name server, which every container has.
NAME_SERVER = "0B00007F"
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


def _sockets(proc: Path):  # type: ignore[no-untyped-def]  # noqa: ANN202 - read by the container's Python alone
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            address, _, port = words[1].rpartition(":")
            if words[3] == LISTENING and address != NAME_SERVER:
                yield words[9], "any" if not address.strip("0") else "loopback", int(port, 16)


def _commands(proc: Path, inodes: set[str]) -> dict[str, str]:
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found = {}
    for folder in proc.glob("[0-9]*"):
        try:
            for handle in (folder / "fd").iterdir():
                target = str(handle.readlink())
                if target in wanted:
                    words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
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
    else:
        sys.stdout.write(json.dumps(listeners()))
