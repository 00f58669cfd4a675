"""What mitmproxy's layers ask of their options: fixed values, not a registry that something could change."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Stands in for `mitmproxy.options.Options`; an attribute that is not here is an error, not a default."""

    connection_strategy: str = "lazy"  # nothing is dialled before a request is allowed
    rawtcp: bool = False  # what is no HTTP is no connection
    websocket: bool = True
    validate_inbound_headers: bool = True
    normalize_outbound_headers: bool = True
    store_streamed_bodies: bool = False
    stream_large_bodies: None = None  # each flow is streamed by its hooks; this option breaks early denials
    body_size_limit: None = None
    keep_host_header: bool = False
    proxy_debug: bool = False
    http2_ping_keepalive: int = 58
    tcp_timeout: int = 600


def as_mitmproxy(options: EngineOptions) -> Any:  # noqa: ANN401 - mitmproxy's own type is a registry of everything it can do
    """Hand `options` to a place that is annotated with mitmproxy's class."""
    return options
