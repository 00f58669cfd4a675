"""Writes the line of each request when it is over, however it ended."""

from collections.abc import Callable

from mitmproxy import http
from mitmproxy.tls import TlsData

from agent_sandbox.proxy.hooks import hook
from agent_sandbox.proxy.ledger import Ledger, ledger_of
from agent_sandbox.proxy.line import Event, Line
from agent_sandbox.proxy.recorder import Recorder
from agent_sandbox.proxy.tunnel import Tunnel


class Journal:
    """Turns ledgers into lines."""

    def __init__(self, recorder: Recorder, *, clock: Callable[[], float]) -> None:
        self._recorder = recorder
        self._clock = clock

    @hook
    def response(self, flow: http.HTTPFlow, _: Tunnel) -> None:
        """Write the line of a request that was answered, by the server or by us."""
        self._write(flow)

    @hook
    def error(self, flow: http.HTTPFlow, _: Tunnel) -> None:
        """Write the line of a request that came to no end."""
        ledger = ledger_of(flow)
        if ledger is not None and ledger.line.decision == "allow" and flow.error is not None:
            ledger.line.reason = f"{ledger.line.reason}; broken off: {flow.error.msg}"
        self._write(flow)

    @hook
    def websocket_end(self, flow: http.HTTPFlow, _: Tunnel) -> None:
        """Write what went over a WebSocket."""
        ledger = ledger_of(flow)
        if ledger is not None:
            ledger.line.event = Event.WEBSOCKET
            ledger.written = False
            self._write(flow)

    @hook
    def malformed(self, reason: str, tunnel: Tunnel) -> None:
        """Write the line of a request that could not be read."""
        line = Line(event=Event.MALFORMED, reason=reason, host=tunnel.host, port=tunnel.port, client=tunnel.client)
        line.status = 400
        self._recorder.record(line)

    @hook
    def tls_failed_client(self, data: TlsData, tunnel: Tunnel) -> None:
        """Say that a client did not take our certificate: it has not been told of the CA."""
        reason = f"no TLS with the client: {data.conn.error}"
        line = Line(event=Event.TLS, reason=reason, host=tunnel.host, port=tunnel.port, client=tunnel.client)
        self._recorder.record(line)

    def _write(self, flow: http.HTTPFlow) -> None:
        ledger = ledger_of(flow)
        if ledger is None or ledger.written:
            return
        ledger.written, ledger.held = True, False
        self._recorder.record(self._complete(ledger, flow))

    def _complete(self, ledger: Ledger, flow: http.HTTPFlow) -> Line:
        line = ledger.line
        line.status = flow.response.status_code if flow.response else None
        line.bytes_out, line.bytes_in = ledger.sent.count, ledger.received.count
        line.duration_ms = (self._clock() - ledger.started) * 1000
        return line
