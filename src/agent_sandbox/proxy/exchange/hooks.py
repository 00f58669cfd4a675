"""The table of hooks: our functions that run at each step of an exchange or a connection."""

from collections.abc import Callable
from typing import Any

from agent_sandbox.proxy.tunnel import Tunnel

Hook = Callable[[Any, Tunnel], None]
Hooks = dict[str, tuple[Hook, ...]]


def hook_table(*addons: object) -> Hooks:
    """Collect the methods of `addons` that are marked with `@hook`, by name, in the order of the addons.

    mitmproxy's own addon manager looks up every hook on every addon for every event, and continues when one raises.
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
