"""The settings of the proxy."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from agent_sandbox.policy.match.upstream import Upstream

# The settings of one layer, by name.
SettingValues = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings in force, each with its default.

    `inspect`: whether TLS is inspected for hosts that are allowed without conditions. `reload`: whether the proxy reads
    its policy again only on restart or `proxy reload`, or watches the files. `upstream`: the upstream proxy and CAs.
    `http1`: what clients that speak both versions get: HTTP/2, or HTTP/1.1 from the lane. `ask`: which requests wait
    for a person, at most `ask_timeout` seconds; empty for none. `ask_uploads`: the size in bytes above which uploads
    wait, too; negative for no limit. `sign_commits`: the secret with the key that signs commits; empty for none.
    """

    block_status: Literal[403, 418] = 403
    inspect: bool = True
    reload: Literal["restart", "watch"] = "restart"
    upstream: Upstream | None = None
    # Left out of the digest's text at their defaults, so that policies without these settings keep their digests.
    ask: str = field(default="", repr=False)
    ask_timeout: int = field(default=60, repr=False)
    ask_uploads: int = field(default=-1, repr=False)
    http1: Literal["auto", "lane"] = field(default="auto", repr=False)
    sign_commits: str = field(default="", repr=False)

    @property
    def asks_first(self) -> bool:
        """Whether a person is asked about some requests that a rule allows."""
        return self.ask_uploads >= 0 or self.asks_about("writes")

    def asks_about(self, kind: str) -> bool:
        """Return whether requests of this kind wait for a person."""
        return kind in self.ask.split(", ")


def settings_of(values: SettingValues) -> Settings:
    """Return the settings with these values, and defaults for the others.

    >>> settings_of({"block_status": 418})
    Settings(block_status=418, inspect=True, reload='restart', upstream=None)
    """
    return replace(Settings(), **values)


def dump_settings(settings: Settings) -> dict[str, object]:
    """Return the settings as plain data; `ask` has `ask_uploads` in words."""
    values = {one.name: getattr(settings, one.name) for one in fields(settings) if one.name != "ask_uploads"}
    return {**values, "upstream": settings.upstream and settings.upstream.dumped()}
