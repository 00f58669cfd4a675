"""Runs in an agent's container: takes all it can get of one thing, prints how much that was, holds it until stdin ends.

Needs nothing but Python, as it is handed to `python3 -c`.
"""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from pathlib import Path

MIB = 1 << 20
C = ctypes.CDLL(None, use_errno=True)
SOCKETS: list[socket.socket] = []  # those that are held
SHARED = Path("/dev/shm")  # noqa: S108 - a container's


def processes() -> int:
    """Fork until the kernel refuses."""
    count = 0
    with contextlib.suppress(OSError):
        while True:
            if os.fork() == 0:
                signal.pause()
            count += 1
    return count


def memory() -> int:
    """Have children take memory until they are killed, one after the other; return how many MiB the first one got."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        while True:
            if os.fork() == 0:
                take(writing)
            os.wait()
    taken = 0
    while True:
        got = int.from_bytes(os.read(reading, 4), "big")
        if got < taken:
            return taken
        taken = got


def take(writing: int) -> None:
    """Hold more and more."""
    held: list[bytes] = []
    while True:
        os.write(writing, len(held).to_bytes(4, "big"))
        held.append(b"x" * MIB)


def processors() -> int:
    """Keep eight processors busy; return how many hundredths of one they got."""
    children = [child for _ in range(8) if (child := os.fork() or burn())]
    time.sleep(1)
    started, before = time.monotonic(), used(children)
    time.sleep(2)
    return round(100 * (used(children) - before) / (time.monotonic() - started))  # too little, if it had to wait


def burn() -> int:
    """Never come back."""
    while True:
        pass


def used(children: list[int]) -> float:
    """Return the seconds of processor time that processes have had."""
    ticks = 0
    for child in children:
        stat = Path(f"/proc/{child}/stat").read_text("ascii")
        ticks += sum(map(int, stat.rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def descriptors() -> int:
    """Open files until the kernel refuses."""
    count = 0
    with contextlib.suppress(OSError):
        while True:
            os.open("/dev/null", os.O_RDONLY)
            count += 1
    return count


def connections() -> int:
    """Connect to the proxy three thousand times, and send nothing."""
    host, _, port = os.environ["AGENT_SANDBOX_PROXY"].partition(":")
    held: list[int] = []
    with contextlib.suppress(OSError):
        while len(held) < 3000:
            held.append(socket.create_connection((host, int(port)), 5).detach())
    return len(held)


def shared_memory() -> int:
    """Fill the file system that is in memory; return how many MiB it took."""
    count = 0
    with contextlib.suppress(OSError), (SHARED / "full").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(MIB))
            count += 1
    return count


def files() -> int:
    """Make empty files in memory until there is no room, at most 100,000."""
    count = 0
    with contextlib.suppress(OSError):
        while count < 100_000:
            os.close(os.open(SHARED / str(count), os.O_CREAT | os.O_WRONLY))
            count += 1
    return count


def call(result: int) -> int:
    """Return the result of a call of the C library, or raise its error."""
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def inotify_instances() -> int:
    """Make instances of inotify until the kernel refuses."""
    count = 0
    with contextlib.suppress(OSError):
        while True:
            call(C.inotify_init1(0))
            count += 1
    return count


def descriptors_in_flight() -> int:
    """Send descriptors to unread sockets until the kernel refuses, at most 20,000."""
    count, null = 0, os.open(os.devnull, os.O_RDONLY)
    with contextlib.suppress(OSError):
        while count < 20_000:
            sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            SOCKETS.extend((sender, receiver))
            socket.send_fds(sender, [b"x"], [null] * 250)
            count += 250
    return count


def signals() -> int:
    """Queue signals until the kernel refuses."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    count = 0
    with contextlib.suppress(OSError):
        while True:
            call(C.sigqueue(os.getpid(), signal.SIGRTMIN, ctypes.c_void_p(0)))
            count += 1
    return count


def message_queues() -> int:
    """Make queues of 80 KiB until the kernel refuses."""
    attributes = (ctypes.c_long * 8)(0, 10, 8192)
    count = 0
    with contextlib.suppress(OSError):
        while True:
            call(C.mq_open(f"/{count}".encode(), os.O_CREAT | os.O_RDWR, 0o600, attributes))
            count += 1
    for number in range(count):
        call(C.mq_unlink(f"/{number}".encode()))  # it lasts while it is open
    return count


def locked_memory() -> int:
    """Lock shared memory of 16 KiB each until the kernel refuses."""
    private, remove, lock, made = 0, 0, 11, 0o1600
    count = 0
    with contextlib.suppress(OSError):
        while True:
            segment = call(C.shmget(private, 1 << 14, made))
            try:
                C.shmat(segment, None, 0)  # an address, which may look negative
                call(C.shmctl(segment, lock, None))
            finally:
                call(C.shmctl(segment, remove, None))  # it lasts while it is attached
            count += 1
    return count


def main() -> None:
    """Take the resource, print that, and keep it."""
    print(globals()[sys.argv[1]](), flush=True)
    sys.stdin.read()
    for path in SHARED.iterdir():
        path.unlink()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
