"""Write the audit record of each request when the request ends, however it ends."""

from collections.abc import Callable

from mitmproxy import http
from mitmproxy.tls import TlsData

from agent_sandbox.proxy.audit.audit_log import AuditLog
from agent_sandbox.proxy.audit.record import AuditRecord, Event
from agent_sandbox.proxy.exchange.exchange import Exchange, exchange_of
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.tunnel import Tunnel


class AccessLog:
    """Writes exchanges to the audit log."""

    def __init__(self, audit_log: AuditLog, *, clock: Callable[[], float]) -> None:
        self._audit_log = audit_log
        self._clock = clock

    @hook
    def response(self, flow: http.HTTPFlow, _: Tunnel) -> None:
        """Write the record of a request that was answered, by the server or by the proxy."""
        self._write(flow)

    @hook
    def error(self, flow: http.HTTPFlow, _: Tunnel) -> None:
        """Write the record of a request that was aborted."""
        exchange = exchange_of(flow)
        if exchange is not None and exchange.line.decision == "allow" and flow.error is not None:
            exchange.line.reason = f"{exchange.line.reason}; aborted: {flow.error.msg}"
        self._write(flow)

    @hook
    def websocket_end(self, flow: http.HTTPFlow, _: Tunnel) -> None:
        """Write the record of a WebSocket that ended."""
        exchange = exchange_of(flow)
        if exchange is not None:
            exchange.line.event = Event.WEBSOCKET
            exchange.written = False
            self._write(flow)

    @hook
    def malformed(self, reason: str, tunnel: Tunnel) -> None:
        """Write the record of a malformed request."""
        line = AuditRecord(
            event=Event.MALFORMED, reason=reason, host=tunnel.host, port=tunnel.port, client=tunnel.client
        )
        line.status = 400
        self._audit_log.record(line)

    @hook
    def tls_failed_client(self, data: TlsData, tunnel: Tunnel) -> None:
        """Write a record of a failed TLS handshake: usually, the client does not trust the proxy's CA."""
        reason = f"TLS handshake with the client failed: {data.conn.error}"
        line = AuditRecord(event=Event.TLS, reason=reason, host=tunnel.host, port=tunnel.port, client=tunnel.client)
        self._audit_log.record(line)

    def _write(self, flow: http.HTTPFlow) -> None:
        exchange = exchange_of(flow)
        if exchange is None or exchange.written:
            return
        exchange.written, exchange.held = True, False
        self._audit_log.record(self._complete(exchange, flow))

    def _complete(self, exchange: Exchange, flow: http.HTTPFlow) -> AuditRecord:
        line = exchange.line
        line.status = flow.response.status_code if flow.response else None
        line.bytes_out, line.bytes_in = exchange.sent.count, exchange.received.count
        line.duration_ms = (self._clock() - exchange.started) * 1000
        return line
