"""Write each audit record to all sinks, count the decisions, and keep the last denials in memory.

The health check sends the same request every few seconds; it gets a record only when the reason has changed.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import cached_property

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Effect
from agent_sandbox.proxy.audit.hints import Hints
from agent_sandbox.proxy.audit.record import AuditRecord, encode, render

REMEMBERED = 1_000
REMEMBERED_HINTS = REMEMBERED_FAILURES = 5
UNCOUNTED = frozenset({Event.HEALTH, Event.START, Event.POLICY, Event.GRANT, Event.TLS})
# The firewall lets only the probe of `agent-sandbox verify` connect from these ports, see images/agent/lib/refusals.sh.
CHECKER_PORTS = range(61_000, 62_000)
# The source port of the connection that is served; asyncio copies it into all tasks of the connection.
source_port: ContextVar[int] = ContextVar("source_port", default=0)
# A reserved name that cannot exist (RFC 6761); only our own checks request it.
CHECKED_NAME = "agent-sandbox.invalid"


class AuditLog:
    """Receives audit records and passes each, encoded, to all `sinks`, which must not block."""

    def __init__(
        self,
        sinks: Iterable[Callable[[bytes], None]],
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sinks = tuple(sinks)
        self._clock, self._monotonic = clock, monotonic
        self._denials: deque[dict[str, object]] = deque(maxlen=REMEMBERED)
        self._hinted: deque[dict[str, object]] = deque(maxlen=REMEMBERED_HINTS)
        self._failed: deque[dict[str, object]] = deque(maxlen=REMEMBERED_FAILURES)
        self._counts: Counter[str] = Counter()
        self._health = ""
        self._verifying_until = 0.0

    def add_sink(self, sink: Callable[[bytes], None]) -> None:
        """Pass the records from now on to this sink too."""
        self._sinks = (*self._sinks, sink)

    def verify_for(self, seconds: float) -> None:
        """For some seconds, count the denials of `agent-sandbox verify` with the start checks; 0 ends this.

        The caller has seen that the firewall reserves the source ports. They keep their audit records.
        """
        self._verifying_until = self._monotonic() + seconds

    @cached_property
    def _hints(self) -> Hints:
        return Hints()

    def record(self, line: AuditRecord) -> None:
        """Write `line` to all sinks."""
        if line.event is Event.HEALTH:
            if line.reason == self._health:
                return
            self._health = line.reason
        if line.event is Event.START:
            self._counts["start"] += 1
        hint = "" if line.event in UNCOUNTED else self._hints.about(line, self._monotonic())
        values = render(line, now=self._clock(), hint=hint)
        if hint:
            self._counts["hinted"] += 1
            self._hinted.append(values)
        if line.failed:
            self._counts["failed"] += 1
            self._failed.append(values)
        if line.event in UNCOUNTED:
            pass
        elif line.decision is Effect.DENY and self._is_verifying(line):
            self._counts["start"] += 1
        else:
            self._counts[line.decision] += 1
            if line.decision is Effect.DENY:
                self._denials.append(values)
        encoded = encode(values)
        for sink in self._sinks:
            sink(encoded)

    def _is_verifying(self, line: AuditRecord) -> bool:
        ours = source_port.get() in CHECKER_PORTS or (line.event is Event.DNS and line.host == CHECKED_NAME)
        return ours and self._monotonic() < self._verifying_until

    def denials(self, count: int) -> list[dict[str, object]]:
        """Return the last `count` denials, oldest first."""
        return list(self._denials)[-count:] if count > 0 else []

    @property
    def hinted(self) -> dict[str, object]:
        """How many requests had a hint since the proxy started, and the last ones."""
        return {"count": self._counts["hinted"], "last": list(self._hinted)}

    @property
    def failed(self) -> dict[str, object]:
        """How many allowed requests got no response since the proxy started, and the last ones."""
        return {"count": self._counts["failed"], "last": list(self._failed)}

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of allowed and denied requests and of the sandbox's own checks, since the proxy started."""
        counts = self._counts
        return {"allowed": counts[Effect.ALLOW], "denied": counts[Effect.DENY], "starts": counts["start"]}
