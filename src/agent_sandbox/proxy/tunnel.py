"""What the front decided about one client connection."""

from dataclasses import dataclass
from enum import StrEnum

from agent_sandbox.policy import Decision


class Carries(StrEnum):
    """What runs on the connection."""

    TLS = "https"  # a CONNECT tunnel with TLS in it
    HTTP = "http"  # a CONNECT tunnel with plain HTTP in it
    PROXY = "proxy"  # no tunnel: each request names its own http:// destination


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnel:
    """One client connection and the only place where its requests may go.

    `refused` is the denial of a tunnel that was opened all the same, so that each request in it can be answered with
    the reason where a person sees it: many clients show nothing of an answer to CONNECT. Nothing is dialled for it.
    `own` says that the client is on the proxy's own machine, or in its own container.
    """

    client: str
    carries: Carries
    host: str = ""
    port: int = 0
    refused: Decision | None = None
    own: bool = False
