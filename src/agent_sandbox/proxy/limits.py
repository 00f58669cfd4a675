"""How much of anything one client may have, and for how long."""

from dataclasses import dataclass

from agent_sandbox.policy.http.bounds import MAX_FIELDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes in bytes, times in seconds. The defaults are what runs; tests shrink them."""

    head_bytes: int = 65_536  # a request line with all its fields; more is 431
    head_fields: int = MAX_FIELDS  # browsers send about 20; the rest is somebody probing
    head_seconds: float = 10.0  # from a head's first byte to its last: slowloris ends here
    hello_bytes: int = 65_536  # a ClientHello with post-quantum key shares is about 2 KiB
    hello_seconds: float = 10.0  # from our 200 to a complete ClientHello
    chunk_line_bytes: int = 256  # a chunk's size with its extensions
    idle_seconds: int = 600  # nothing in either direction
    closing_seconds: float = 60.0  # for what is left of an answer, from one piece that the client takes to the next
    resolve_seconds: float = 5.0
    hint_seconds: float = 1.0  # to resolve what a company's proxy resolves itself: only to see whether it leads inside
    connect_seconds: float = 10.0
    connections: int = 1_024  # per client address; over it, the one that was idle the longest goes
    servers_idle: int = 8  # of one client's connection, each kept open for another request to it
    websocket_bytes: int = 16 * 1024 * 1024  # one message, in as many frames as it is
    websocket_closing_seconds: float = 2.0  # from one side's Close to the other's
    held_bytes: int = 1024 * 1024  # read from one side of HTTP/2 and not yet taken by the other
    crowd: int = 128  # so many connections may hold that much, and read a gulp at once; of more, each holds less
    body_seconds: float = 10.0  # from a head to the end of a body that is held until it is decided
    bodies_held: int = 64  # at once, each of at most `graphqlbody.MAX_BODY`
    streams_reset: int = 200  # HTTP/2 streams that a client may open and cancel on one connection
