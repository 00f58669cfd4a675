"""Count audit records for Prometheus. Labels come from bounded sets, whatever the sandbox sends."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from agent_sandbox.audit_event import CHECKS, Event
from agent_sandbox.features.proxy.reports import State
from agent_sandbox.features.traffic.record import Record
from agent_sandbox.features.traffic.wanted import OTHERS
from agent_sandbox.policy.decision import Cause, Effect

PREFIX = "agent_sandbox"
# Only hosts of allowed requests are counted one by one: the agent can make up any number of others.
MOST_HOSTS = 200
OTHER = "other"
EFFECTS = frozenset(map(str, Effect))
CAUSES = frozenset({*map(str, Cause), "address"})
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The metrics of one sandbox."""

    def __init__(self, sandbox: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._sandbox, self._hosts = sandbox, set[str]()
        self._requests = self._counter(
            "requests", "Requests, connections and names that were decided.", "decision", "cause"
        )
        self._by_host = self._counter("host_requests", "Allowed requests by host.", "host")
        self._sent = self._counter("sent_bytes", "Bytes of bodies and tunnels that were sent to a host.", "host")
        self._received = self._counter("received_bytes", "Bytes that were received from a host.", "host")
        self._answers = self._counter("answers", "Answers of a person.", "decision")
        self._missed = self._counter("missed_records", "Records that came too fast to be counted.")
        self._seconds = Histogram(
            f"{PREFIX}_request_seconds",
            "Duration of allowed requests.",
            ["sandbox"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self.missed(0)
        self._questions = self._gauge("questions", "Requests that wait for a person.")
        self._grants = self._gauge("grants", "Grants in force.")
        self._connected = self._gauge("connected", "Whether the proxy answers.")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, ["sandbox", *labels], registry=self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", text, ["sandbox"], registry=self._registry)

    def add(self, record: Record) -> None:
        """Count a record."""
        decision = record.decision if record.decision in EFFECTS else OTHER
        if record.event == Event.GRANT and record.method:
            self._answers.labels(self._sandbox, decision).inc()
        if record.event in OTHERS or record.event in CHECKS:
            return
        allowed = decision == Effect.ALLOW
        if record.event != Event.WEBSOCKET:  # its end; its beginning was counted
            cause = record.cause if not record.cause or record.cause in CAUSES else OTHER
            self._requests.labels(self._sandbox, decision, cause).inc()
        if not allowed:
            return
        host = self._host(record.host)
        if record.event != Event.WEBSOCKET:
            self._by_host.labels(self._sandbox, host).inc()
        if record.event == Event.REQUEST:
            self._seconds.labels(self._sandbox).observe(record.duration_ms / 1000)
        self._sent.labels(self._sandbox, host).inc(record.bytes_out)
        self._received.labels(self._sandbox, host).inc(record.bytes_in)

    def _host(self, host: str) -> str:
        if host not in self._hosts:
            if len(self._hosts) >= MOST_HOSTS:
                return OTHER
            self._hosts.add(host)
        return host

    def state(self, state: State) -> None:
        """Set how many questions and grants are open now."""
        self._questions.labels(self._sandbox).set(len(state.questions))
        self._grants.labels(self._sandbox).set(len(state.grants))
        self.connected(connected=True)

    def connected(self, *, connected: bool) -> None:
        """Set whether the proxy answers. Nothing is open while it does not."""
        self._connected.labels(self._sandbox).set(connected)
        if not connected:
            self._questions.labels(self._sandbox).set(0)
            self._grants.labels(self._sandbox).set(0)

    def missed(self, count: int) -> None:
        """Count records that the proxy did not pass on."""
        self._missed.labels(self._sandbox).inc(count)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
