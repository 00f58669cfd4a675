"""Start the program in the sandbox that sends or receives a copy, and do the other half here."""

import io
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO, BinaryIO, cast

from agent_sandbox.bounded_json import read_json
from agent_sandbox.features.copying import tree
from agent_sandbox.features.copying.tree import BrokenStreamError, Copied, Meter, Place, Receiver, RefusedError
from agent_sandbox.host.command import Command
from agent_sandbox.host.process import end

PYTHON = ("python3", "-I", "-c")
MOST_ENTRIES = 200_000
# Of the answer of the end in the sandbox, and of what it prints to stderr.
LONGEST = 1 << 16
LONGEST_LINE = 500
# No number in that answer is larger.
LARGEST = 1 << 63
GRACE = 2.0
BROKEN = "the sandbox sent an invalid copy"
NO_ANSWER = "the sandbox did not say what it copied"

# The command that runs a program in the sandbox.
type Within = Callable[[tuple[str, ...]], Command]


def from_sandbox(within: Within, source: str, receiver: Receiver) -> Copied:
    """Copy a path of the sandbox; raise RefusedError."""
    meter = receiver.meter
    with _end_inside(within, "send", source, "-", meter) as (_, out):
        try:
            return receiver.receive(out)
        except BrokenStreamError as error:
            raise RefusedError(f"{BROKEN}: {error}") from error


def to_sandbox(within: Within, place: Place, target: str, base: str, meter: Meter) -> Copied:
    """Copy a path of this machine; raise RefusedError."""
    return _to_sandbox(within, lambda into: tree.send(place, into, meter), target, base, meter)


def file_to_sandbox(within: Within, content: bytes, target: str) -> Copied:
    """Write a file in the sandbox; raise RefusedError."""
    meter = Meter(most_bytes=max(1, len(content)), most_entries=1)
    return _to_sandbox(within, lambda into: tree.send_file(content, into, meter), target, tree.base_of(target), meter)


def _to_sandbox(within: Within, send: Callable[[BinaryIO], None], target: str, base: str, meter: Meter) -> Copied:
    with _end_inside(within, "receive", target, base, meter) as (into, out):
        with suppress(BrokenPipeError):  # the answer says why
            send(into)
            into.close()
        return _answer(out.read(LONGEST))


def _answer(said: bytes) -> Copied:
    """Return what the end in the sandbox reports; the agent may have forged it."""
    try:
        found = read_json(said.decode())
        if "error" in found:
            raise RefusedError(str(found["error"]), where=tree.INSIDE)
        skipped = [(str(path), str(why)) for path, why in found["skipped"]]
        return Copied(**{name: _number(found[name]) for name in ("files", "size", "more")}, skipped=skipped)
    except (ValueError, LookupError, TypeError) as error:
        raise RefusedError(NO_ANSWER) from error


def _number(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise ValueError
    return value


@contextmanager
def _end_inside(
    within: Within, way: str, path: str, base: str, meter: Meter
) -> Iterator[tuple[BinaryIO, io.BufferedReader]]:
    """Start the end in the sandbox; yield its stdin and stdout."""
    code = Path(tree.__file__).read_text("utf-8")
    command = within((*PYTHON, code, way, path, base, str(meter.most_bytes), str(meter.most_entries)))
    with command.piped() as child:
        said: list[str] = []
        reading = Thread(target=_keep_last_line, args=(child.stderr, said), daemon=True)
        reading.start()
        try:
            yield cast("BinaryIO", child.stdin), cast("io.BufferedReader", child.stdout)
        except RefusedError as error:
            _close(child)
            reading.join(GRACE)
            # If nothing ran inside, its last words are the reason.
            if child.returncode and said and error.what in {NO_ANSWER, f"{BROKEN}: {tree.TOO_EARLY}"}:
                raise RefusedError(said[-1], where=tree.INSIDE) from error
            raise
        _close(child)


def _close(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout):
        with suppress(OSError):
            if pipe:
                pipe.close()
    end(child, within=GRACE)


def _keep_last_line(stream: IO[bytes], said: list[str]) -> None:
    last = b""
    with suppress(OSError, ValueError):
        while data := stream.read1(tree.CHUNK):  # type: ignore[attr-defined]
            last = (last + data)[-LONGEST_LINE * 4 :]
    if lines := last.split(b"\n"):
        words = [line.decode("utf-8", "replace").strip() for line in lines]
        said.extend(line[:LONGEST_LINE] for line in words if line)
