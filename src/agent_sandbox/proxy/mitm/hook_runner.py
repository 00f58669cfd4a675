"""Run the hooks of one connection. If a hook raises, its request stays denied."""

import asyncio
import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from mitmproxy import http
from mitmproxy.flow import Error
from mitmproxy.proxy.commands import StartHook
from mitmproxy.tls import TlsData

from agent_sandbox.proxy.exchange.denial import UNDECIDED
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.exchange.hooks import Hooks
from agent_sandbox.proxy.mitm.flows import STEPS, ExchangeOwner, FlowHooks, deny
from agent_sandbox.proxy.tls.contexts import HTTP2, TlsStart
from agent_sandbox.proxy.tunnel import Tunnel


class HookRunner:
    """Calls the functions of a hook. `on_fault` receives each error; `close` ends the client's connection."""

    def __init__(
        self,
        hooks: Hooks,
        tunnel: Tunnel,
        *,
        on_fault: Callable[[str], None],
        close: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hooks = hooks
        self._flow_hooks = FlowHooks(hooks, tunnel, clock=clock)
        self._tunnel = tunnel
        self._on_fault = on_fault
        self._close = close

    def run(self, hook: StartHook, owner: ExchangeOwner) -> None:
        """Run all functions of `hook`. Does not raise an `Exception`: the layers must go on to send the denial."""
        of_flow, functions = hook.name in STEPS, self._hooks.get(hook.name, ())
        if not (of_flow or functions):
            return
        (data,) = hook.args()
        with _FaultIsDenial(self, hook.name, data, owner):
            if of_flow:
                getattr(self._flow_hooks, hook.name)(data, owner)
                return
            if isinstance(data, TlsData):
                self._run_on_tls(hook.name, data)
                return
            for function in functions:
                function(data, self._tunnel)

    def _run_on_tls(self, name: str, data: TlsData) -> None:
        if name == "tls_failed_client":
            # What an audit record needs of a failed handshake is its error.
            for function in self._hooks[name]:
                function(str(data.conn.error), self._tunnel)
            return
        start = TlsStart(http2=data.context.client.alpn == HTTP2, connection=data.ssl_conn)
        for function in self._hooks[name]:
            function(start, self._tunnel)
        if name == "tls_start_server":
            data.conn.sni = self._tunnel.host
        data.ssl_conn = start.connection

    def deny_after_fault(self, name: str, data: Any, exchange: Exchange | None) -> None:  # noqa: ANN401 - hooks carry what they carry
        """Replace the response with a denial if the hook had set one, else end the connection."""
        self._on_fault(f"error in hook {name}")
        if not isinstance(data, http.HTTPFlow):
            self._close()
            return
        data.request.stream = False
        if exchange is not None and (name == "requestheaders" or exchange.held):
            exchange.abort(UNDECIDED)
        if name == "requestheaders" and data.response is not None:
            deny(data, exchange, UNDECIDED)
        else:
            data.error = Error(Error.KILLED_MESSAGE)
            self._close()


class _FaultIsDenial:
    """Turns any exception in a hook into a denial: by default, mitmproxy would let the request through."""

    def __init__(self, runner: HookRunner, name: str, data: Any, owner: ExchangeOwner) -> None:  # noqa: ANN401 - as above
        self._runner = runner
        self._name = name
        self._data = data
        self._owner = owner

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            return False
        self._runner.deny_after_fault(self._name, self._data, self._owner.exchange)
        logging.getLogger(__name__).error("error in hook %s", self._name, exc_info=error)
        return isinstance(error, Exception | asyncio.CancelledError)
