"""How the proxy behaves, beside what it lets through."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from agent_sandbox.policy.match.upstream import Upstream

# What one layer has said, by the name of the setting.
Said = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings in force; each has its usual value until a layer says another.

    `inspect` is whether TLS is opened for hosts of which nothing but the host is asked; `reload` is whether the proxy
    waits for a restart (or `proxy reload`) to read its policy again, or watches the file; `upstream` is what a company
    puts between the proxy and the servers.
    """

    block_status: Literal[403, 418] = 403
    inspect: bool = True
    reload: Literal["restart", "watch"] = "restart"
    upstream: Upstream | None = None


def settings_of(said: Said) -> Settings:
    """Return the settings that have been said, and the usual values of the others.

    >>> settings_of({"block_status": 418})
    Settings(block_status=418, inspect=True, reload='restart', upstream=None)
    """
    return replace(Settings(), **said)


def dump_settings(settings: Settings) -> dict[str, object]:
    """Return the settings as plain data."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {**values, "upstream": settings.upstream and settings.upstream.dumped()}
