"""Limits on sizes, times and counts per client."""

from msgspec import Struct

from agent_sandbox.policy.http.bounds import MAX_FIELDS

# Filters, searches and decoders hand back to the event loop after so many bytes, or so many lines, events or frames.
STEP_BYTES, STEP_ITEMS = 16_384, 200


class Limits(Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds. The defaults are what runs; tests shrink them."""

    head_bytes: int = 65_536  # a request line with all its header fields; more is answered with 431
    head_fields: int = MAX_FIELDS  # browsers send about 20
    head_seconds: float = 10.0  # from the first byte of a head to its last, against slowloris
    response_head_bytes: int = 262_144  # the interim responses (1xx) before it included
    response_head_fields: int = 2_000  # as in Node.js; few servers send more than 100
    hello_bytes: int = 65_536  # a ClientHello with post-quantum key shares is about 2 KiB
    hello_seconds: float = 10.0  # from our 200 to a complete ClientHello
    chunk_line_bytes: int = 256  # a chunk size with its extensions
    idle_seconds: int = 600  # nothing in either direction
    closing_seconds: float = 60.0  # when closing, how long a client may read nothing of the rest of a response
    resolve_seconds: float = 5.0
    hint_seconds: float = 1.0  # to check for private addresses of a name that the upstream proxy resolves itself
    connect_seconds: float = 10.0
    connections: int = 1_024  # per client address; beyond it, the one that was idle the longest is closed
    servers_idle: int = 8  # idle server connections kept open per client connection
    pool_connections: int = 64  # idle server connections that all clients share
    pool_per_server: int = 32
    pool_idle_seconds: float = 55.0  # many load balancers close after 60
    pool_age_seconds: float = 300.0  # from when it was dialled: the name may lead elsewhere by then
    websocket_bytes: int = 16 * 1024 * 1024  # one message, in any number of frames
    websocket_closing_seconds: float = 2.0  # from one side's Close to the other's
    held_bytes: int = 1024 * 1024  # read from one side of an HTTP/2 connection: not yet taken, or kept to be sent again
    crowd: int = 128  # sessions that may each buffer `held_bytes` and do large reads; beyond it, each buffers less
    body_seconds: float = 10.0  # from a head to the end of a body that is buffered for the decision
    bodies_held: int = 64  # bodies buffered at once, each of at most `Exchange.body_limit`
    questions: int = 64  # requests that wait for a person at once; each holds at most `held_bytes` of its body
    streams_reset: int = 200  # HTTP/2 streams that a client may open and cancel on one connection
