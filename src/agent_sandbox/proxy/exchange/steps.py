"""Run the hooks on exchanges. If one raises, its request stays denied."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from agent_sandbox.audit_event import Event
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.exchange.denial import UNDECIDED, Page
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.exchange.hooks import Hooks
from agent_sandbox.proxy.tunnel import Tunnel

# The answer if no hook has decided.
NOT_DECIDED = Page(403, ((b"x-agent-sandbox", b"blocked"), (b"content-length", b"0")), b"")


class Steps:
    """The hooks of one connection."""

    def __init__(self, hooks: Hooks, tunnel: Tunnel, record: Callable[[AuditRecord], None]) -> None:
        self._hooks = hooks
        self._tunnel = tunnel
        self._record = record

    def run(self, name: str, subject: Any) -> bool:  # noqa: ANN401 - each hook has its own type
        """Run all functions of a hook. Return whether none of them raised."""
        try:
            for function in self._hooks.get(name, ()):
                function(subject, self._tunnel)
        except BaseException as error:
            self.fault(f"error in hook {name}", error)
            if not isinstance(error, Exception | asyncio.CancelledError):
                raise
            return False
        return True

    def fault(self, reason: str, error: BaseException) -> None:
        """Record an error in the proxy."""
        tunnel = self._tunnel
        line = AuditRecord(event=Event.FAULT, reason=reason, host=tunnel.host, port=tunnel.port, client=tunnel.client)
        self._record(line)
        logging.getLogger(__name__).error("%s", reason, exc_info=error)

    def decide(self, exchange: Exchange, name: str = "requestheaders") -> Page | None:
        """Decide a request by the hooks. Return the answer if it is denied, None if it is allowed or undecided."""
        exchange.forwarded, exchange.answer = None, None
        if not self.run(name, exchange):
            exchange.abort(UNDECIDED)
            exchange.answer = exchange.render(UNDECIDED)
        if exchange.answer is not None or exchange.forwarded is not None:
            return exchange.answer
        is_pending = exchange.waits or (exchange.held and name == "requestheaders")
        return None if is_pending else NOT_DECIDED
