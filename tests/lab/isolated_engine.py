"""A machine with its own Docker engine, on which tests may kill anything: namespaces that end with the test process.

Its processes, network and mounts are not the host's. Its disk is in memory, so nothing is left, however the machine
ends. The socket of its engine is in a directory that the host can reach.
"""

import subprocess
import time
from pathlib import Path

from engine import CommandError, run

ALONE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# The process that holds a namespace ends when its stdin closes, so with the test. It is a shell: it reaps orphans.
HOLD = "mount -t tmpfs tmpfs {}; echo ready; cat; exit"
SECONDS = 60


class Machine:
    """A running machine. It keeps its disk when the power is cut, and nothing else."""

    def __init__(self, folder: Path, *options: str, subordinate: str = "") -> None:
        """Turn it on: `options` are the engine's, `subordinate` is what its /etc/subuid and /etc/subgid say."""
        self.log = folder / "engine.log"
        self.host = f"unix://{folder}/engine.sock"
        self._disk, self._memory = folder / "disk", folder / "memory"
        self._options, self._subordinate = options, folder / "subordinate"
        self._subordinate.write_text(subordinate)
        for place in (self._disk, self._memory):
            place.mkdir()
        self._disk_held = held("unshare", "--mount", "bash", "-ec", HOLD.format(self._disk))
        self.turn_on()

    def turn_on(self) -> None:
        """Start it with its engine."""
        script = f"ip link set lo up; {HOLD.format(self._memory)}"
        self._power = held("nsenter", f"--mount=/proc/{self._disk_held.pid}/ns/mnt", *ALONE, "bash", "-ec", script)
        self.start_engine()

    def cut_off(self) -> None:
        """End all that runs on it at once, as when its power is cut."""
        self._power.communicate()
        self._engine.wait(SECONDS)

    def remove(self) -> None:
        """Stop it, and delete its disk."""
        self.cut_off()
        self._disk_held.communicate()

    def start_engine(self) -> None:
        """Start the engine, and wait until it answers."""
        if self._options:
            for file in ("/etc/subuid", "/etc/subgid"):
                run(*self._inside, "mount", "--bind", self._subordinate, file)
        places = (f"--data-root={self._disk}", f"--exec-root={self._memory}", f"--pidfile={self._memory}/engine.pid")
        with self.log.open("a") as log:
            argv = (*self._inside, "dockerd", *places, *self._options, f"--host={self.host}", "--mtu=1400")
            self._engine = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + SECONDS
        while run("docker", "--host", self.host, "info", check=False).returncode != 0:
            if self._engine.poll() is not None or time.monotonic() > deadline:
                raise CommandError(self.log.read_text())
            time.sleep(0.1)

    def kill_engine(self) -> None:
        """Kill the engine; its containers keep running."""
        self._signal_engine("KILL")

    def stop_engine(self) -> None:
        """Stop the engine; it stops its containers first."""
        self._signal_engine("TERM")

    def load(self, *images: str) -> None:
        """Take over images of the engine that is used here otherwise."""
        load = ("docker", "--host", self.host, "load", "--quiet")
        with subprocess.Popen(("docker", "save", *images), stdout=subprocess.PIPE) as saved:
            loaded = subprocess.run(load, stdin=saved.stdout, capture_output=True, check=False)
        assert (saved.returncode, loaded.returncode) == (0, 0), loaded.stderr

    @property
    def _inside(self) -> tuple[str, ...]:
        place = f"/proc/{self._power.pid}/ns"
        return ("nsenter", f"--net={place}/net", f"--mount={place}/mnt", f"--pid={place}/pid_for_children")

    def _signal_engine(self, name: str) -> None:
        run(*self._inside, "sh", "-c", f"kill -{name} $(cat {self._memory}/engine.pid)")
        self._engine.wait(SECONDS)


def held(*argv: str) -> subprocess.Popen[str]:
    """Start what holds a namespace, and wait until it does."""
    holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    return holder
