"""The destination of one client connection, as the front decided it."""

from enum import StrEnum

from msgspec import Struct

from agent_sandbox.policy import Decision


class Carries(StrEnum):
    """The protocol on the connection."""

    TLS = "https"  # a CONNECT tunnel with TLS in it
    HTTP = "http"  # a CONNECT tunnel with plain HTTP in it
    PROXY = "proxy"  # no tunnel: each request names its own http:// destination


class Tunnel(Struct, kw_only=True):
    """One client connection and the only destination of its requests.

    `client` is the address and the port of the client, `ADDRESS:PORT`.
    `decision` is on the tunnel. A denied one is opened anyway, only to answer each request in it with the reason: many
    clients do not show the response to a CONNECT. The proxy connects to nothing for it, unless a person
    allows a request in it.
    `own` means that the client runs in the proxy container itself.
    """

    client: str
    carries: Carries
    host: str = ""
    port: int = 0
    decision: Decision | None = None
    own: bool = False

    @property
    def refused(self) -> Decision | None:
        """The denial of the tunnel, None if it is not denied."""
        return None if self.decision is None or self.decision.allowed else self.decision
