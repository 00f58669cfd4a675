"""Write the audit record of each request when the request ends, however it ends."""

from collections.abc import Callable, Iterable
from typing import Protocol

from agent_sandbox.audit_event import Event
from agent_sandbox.proxy.audit.audit_log import AuditLog
from agent_sandbox.proxy.audit.record import AuditRecord, SecretUse
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.tunnel import Tunnel


class Count(Protocol):
    """Counts the secrets of one request to a host, with the status of the response."""

    def __call__(self, uses: Iterable[SecretUse], host: str, status: int | None, *, refused: bool) -> object:
        """Count them; `refused` says whether the server refused them."""


class AccessLog:
    """Writes exchanges to the audit log, and counts the secrets in them, with the host and its answer."""

    def __init__(
        self,
        audit_log: AuditLog,
        *,
        clock: Callable[[], float],
        count: Count = lambda *_, **__: None,
    ) -> None:
        self._audit_log = audit_log
        self._clock = clock
        self._count = count

    @hook
    def response(self, exchange: Exchange, _: Tunnel) -> None:
        """Write the record of a request that was answered, by the server or by the proxy."""
        self._write(exchange)

    @hook
    def error(self, exchange: Exchange, _: Tunnel) -> None:
        """Write the record of a request that was aborted."""
        self._write(exchange)

    @hook
    def websocket_end(self, exchange: Exchange, _: Tunnel) -> None:
        """Write the record of a WebSocket that ended."""
        exchange.event, exchange.written = Event.WEBSOCKET, False
        self._write(exchange)

    @hook
    def malformed(self, reason: str, tunnel: Tunnel) -> None:
        """Write the record of a malformed request."""
        self._record(Event.MALFORMED, reason, tunnel, status=400)

    @hook
    def tls_failed_client(self, error: str, tunnel: Tunnel) -> None:
        """Write a record of a failed TLS handshake: usually, the client does not trust the proxy's CA."""
        self._record(Event.TLS, f"TLS handshake with the client failed: {error}", tunnel)

    def _record(self, event: Event, reason: str, tunnel: Tunnel, *, status: int | None = None) -> None:
        self._audit_log.record(
            AuditRecord(
                event=event, reason=reason, host=tunnel.host, port=tunnel.port, client=tunnel.client, status=status
            )
        )

    def _write(self, exchange: Exchange) -> None:
        if exchange.written:
            return
        exchange.written, exchange.held = True, False
        self._audit_log.record(exchange.record(now=self._clock()))
        # An exchange may have a second record, which would be a second use.
        self._count(exchange.secrets, exchange.host, exchange.status, refused=exchange.refuses_secret)
        exchange.secrets = ()
