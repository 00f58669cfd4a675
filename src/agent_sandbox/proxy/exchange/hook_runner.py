"""Run the hooks of one connection. If a hook raises, its request stays denied."""

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from mitmproxy import http
from mitmproxy.flow import Error
from mitmproxy.proxy.commands import StartHook

from agent_sandbox.proxy.exchange.denial import UNDECIDED
from agent_sandbox.proxy.exchange.exchange import answer
from agent_sandbox.proxy.exchange.hooks import Hooks
from agent_sandbox.proxy.tunnel import Tunnel


class HookRunner:
    """Calls the functions of a hook. `on_fault` receives each error; `close` ends the client's connection."""

    def __init__(
        self, hooks: Hooks, tunnel: Tunnel, *, on_fault: Callable[[str], None], close: Callable[[], None]
    ) -> None:
        self._hooks = hooks
        self._tunnel = tunnel
        self._on_fault = on_fault
        self._close = close

    def run(self, hook: StartHook) -> None:
        """Run all functions of `hook`. Does not raise an `Exception`: the layers must go on to send the denial."""
        functions = self._hooks.get(hook.name)
        if functions is None:
            return
        (data,) = hook.args()
        with _FaultIsDenial(self, hook.name, data):
            for function in functions:
                function(data, self._tunnel)

    def deny_after_fault(self, name: str, data: Any) -> None:  # noqa: ANN401 - hooks carry what they carry
        """Replace the response with a denial if the hook had set one, else end the connection."""
        self._on_fault(f"error in hook {name}")
        if not isinstance(data, http.HTTPFlow):
            self._close()
            return
        data.request.stream = False
        if name == "requestheaders" and data.response is not None:
            data.response = answer(data, UNDECIDED)
        else:
            data.error = Error(Error.KILLED_MESSAGE)
            self._close()


class _FaultIsDenial:
    """Turns any exception in a hook into a denial: by default, mitmproxy would let the request through."""

    def __init__(self, runner: HookRunner, name: str, data: Any) -> None:  # noqa: ANN401 - as above
        self._runner = runner
        self._name = name
        self._data = data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            return False
        self._runner.deny_after_fault(self._name, self._data)
        logging.getLogger(__name__).error("error in hook %s", self._name, exc_info=error)
        return isinstance(error, Exception | asyncio.CancelledError)
