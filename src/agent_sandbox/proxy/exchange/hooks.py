"""The hooks of ours, beside mitmproxy's: layers are sans-I/O and say by a hook what has to be written down."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mitmproxy.proxy.commands import StartHook

from agent_sandbox.proxy.tunnel import Tunnel

Hook = Callable[[Any, Tunnel], None]
Hooks = dict[str, tuple[Hook, ...]]


@dataclass
class MalformedHook(StartHook):  # type: ignore[no-untyped-call]
    """A request that could not be read was refused; `reason` is what was wrong."""

    name = "malformed"
    blocking = False
    reason: str


def hook_table(*addons: object) -> Hooks:
    """Collect the hooks of `addons`, once: each public method that is marked as one, in the order of the addons.

    mitmproxy's own manager looks every hook up on every addon for every event, and goes on when one raises.
    """
    table: dict[str, list[Hook]] = {}
    for addon in addons:
        for name in dir(addon):
            function = getattr(addon, name)
            if getattr(function, "is_hook", False):
                table.setdefault(name, []).append(function)
    return {name: tuple(functions) for name, functions in table.items()}


def hook[F: Callable[..., None]](function: F) -> F:
    """Mark a method as the hook of its name."""
    function.is_hook = True  # type: ignore[attr-defined]
    return function
