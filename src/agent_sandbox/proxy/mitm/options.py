"""The options that mitmproxy's layers read, as fixed values instead of a mutable registry."""

from typing import Any

from msgspec import Struct


class EngineOptions(Struct, frozen=True, kw_only=True):
    """Replaces `mitmproxy.options.Options`. An attribute that is missing here is an error, not a default."""

    connection_strategy: str = "lazy"  # connect only after a request is allowed
    rawtcp: bool = False  # never forward anything but HTTP
    websocket: bool = False  # HTTP/2 clients have no upgrade
    validate_inbound_headers: bool = True
    normalize_outbound_headers: bool = True
    store_streamed_bodies: bool = False
    stream_large_bodies: None = None  # each flow is streamed by its hooks; this option breaks early denials
    body_size_limit: None = None
    keep_host_header: bool = False
    proxy_debug: bool = False
    http2_ping_keepalive: int = 58
    tcp_timeout: int = 600


def as_mitmproxy(options: EngineOptions) -> Any:  # noqa: ANN401 - mitmproxy's own type is a registry of all its options
    """Return `options` typed as `Any`, for parameters annotated with mitmproxy's class."""
    return options
