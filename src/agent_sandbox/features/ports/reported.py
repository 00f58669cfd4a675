"""The ports that a container reports as listening. The agent may have forged the report."""

import asyncio
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Collection
from contextlib import suppress

from msgspec import Struct

from agent_sandbox.bounded_json import read_json
from agent_sandbox.features.ports.forward import started
from agent_sandbox.host.command import Command
from agent_sandbox.printable import printable
from agent_sandbox.projectfile.ports import HIGHEST

LONGEST = 200  # of a command
LONGEST_REPORT = 1 << 20  # characters: a hundred addresses with commands have far fewer
# A report is read at most this often.
SECONDS = 0.5


class Listening(Struct, frozen=True, kw_only=True):
    """A port on which something listens in the sandbox."""

    port: int
    addresses: tuple[str, ...]
    command: str


def parse_report(text: str) -> tuple[Listening, ...] | None:
    """Return the ports of a report, or None if it is invalid."""
    if len(text) > LONGEST_REPORT:
        return None
    try:
        return tuple(
            Listening(
                port=_port(one["port"]),
                addresses=tuple(map(str, one["addresses"])),
                command=_one_spaced(str(one["command"])),
            )
            for one in read_json(text)
        )
    except (ValueError, LookupError, TypeError):
        return None


def _one_spaced(command: str) -> str:
    """Return the start of a command without runs of spaces: with them, it would wrap and look like another line."""
    return " ".join(command[:LONGEST].split())


def _port(value: object) -> int:
    if isinstance(value, int) and 0 < value <= HIGHEST:
        return value
    raise ValueError(value)


def parse_clients(text: str, asked: Collection[str]) -> dict[str, str]:
    """Return the commands of a report about clients, by address; only of those that were asked for, and bounded."""
    try:
        said = read_json(text) if len(text) <= LONGEST_REPORT else None
    except ValueError:
        return {}
    pairs = said.items() if isinstance(said, dict) else ()
    return {
        address: printable(_one_spaced(command))
        for address, command in pairs
        if address in asked and isinstance(command, str)
    }


async def watch_reports(command: Command) -> AsyncIterator[tuple[Listening, ...]]:
    """Yield each report of `command`, which runs listeners.py in the sandbox, until one is invalid or it ends."""
    async with started(command, stderr=DEVNULL) as (said, _):
        with suppress(ValueError):  # a line that is too long
            while (found := parse_report((await said.readline()).decode("utf-8", "replace"))) is not None:
                yield found
                await asyncio.sleep(SECONDS)
