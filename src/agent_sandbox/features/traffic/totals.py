"""Totals by host."""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from agent_sandbox.audit_event import Event
from agent_sandbox.features.traffic.record import Record
from agent_sandbox.policy.decision import Effect

# An agent can request any number of names; those beyond this number are counted together.
MOST_HOSTS = 10_000
OTHERS = "(other hosts)"
NO_HOST = "(no host)"


class By(StrEnum):
    """The column by which hosts are sorted."""

    REQUESTS = "requests"
    DENIED = "denied"
    SENT = "sent"
    RECEIVED = "received"


class Total(Struct, kw_only=True):
    """The requests to a host, how many of them were denied, the bytes to and from it, and the time of the last one."""

    host: str
    requests: int = 0
    denied: int = 0
    sent: int = 0
    received: int = 0
    last: str = ""


class Totals:
    """Adds up records."""

    def __init__(self) -> None:
        self._hosts: dict[str, Total] = {}

    def add(self, record: Record) -> None:
        """Count a record. The end of a WebSocket is not a request: its beginning was counted."""
        name = record.host or NO_HOST
        if name not in self._hosts and len(self._hosts) >= MOST_HOSTS:
            name = OTHERS
        total = self._hosts.setdefault(name, Total(host=name))
        if record.event != Event.WEBSOCKET:
            total.requests += 1
            total.denied += record.decision == Effect.DENY
        total.sent += record.bytes_out
        total.received += record.bytes_in
        total.last = max(total.last, record.time)

    def top(self, by: By) -> Sequence[Total]:
        """Return the totals, the largest first."""
        return sorted(self._hosts.values(), key=lambda one: (-int(getattr(one, by)), -one.requests, one.host))
