"""What a company puts between the proxy and the servers: a proxy of its own, and an authority that signs for others."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import override

from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.errors import Ambiguous, Unfit
from agent_sandbox.policy.http.addresses import is_liftable, why_forbidden
from agent_sandbox.policy.http.authority import parse_authority
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.policy.match.host_list import FILE_NAME
from agent_sandbox.policy.match.host_pattern import HostPattern
from agent_sandbox.policy.match.host_service import ENGINE
from agent_sandbox.policy.text import safe_repr

HOW = "write `http://proxy.corp.example:3128`, or `https://` where TLS is spoken with the proxy itself"
CREDENTIALS = "upstream-auth"
SHAPE = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#]+)/?", re.IGNORECASE)


NOWHERE = Origin(file="", line=1, layer="")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamProxy:
    """Where the company's proxy listens. `host` is a name, an address, or `ENGINE`."""

    tls: bool
    host: str
    port: int

    @override
    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorities:
    """Certificates that are trusted besides the usual ones; the name tells the file and what stood in it."""

    name: str
    pem: str = field(repr=False, compare=False)

    @property
    def file(self) -> str:
        """The name of the file; it lies beside the policy that names it."""
        return self.name.partition(" ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """What one layer says of it, as a whole: credentials, which lie beside that layer, go to no other proxy.

    Where it is written is no part of what it means; which layer writes it is.
    """

    layer: str
    proxy: UpstreamProxy | None = None
    no_proxy: tuple[HostPattern, ...] = ()
    ca: Authorities | None = None
    origin: Origin = field(default=NOWHERE, repr=False, compare=False)

    def leads(self, host: str) -> UpstreamProxy | None:
        """Return the proxy that a canonical host is reached through, None for one that is dialled directly."""
        return None if any(pattern.matches(host) for pattern in self.no_proxy) else self.proxy

    def told(self) -> Iterable[str]:
        """Yield what it means, in words."""
        if self.proxy:
            but = f", but for {', '.join(map(str, self.no_proxy))}" if self.no_proxy else ""
            yield f"all that is allowed goes through {self.proxy}{but}"
        if self.ca:
            yield f"{self.ca.name} may sign for every host"

    def dumped(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            "layer": self.layer,
            "proxy": str(self.proxy) if self.proxy else None,
            "no_proxy": list(map(str, self.no_proxy)),
            "ca": self.ca.name if self.ca else None,
        }

    @override
    def __str__(self) -> str:
        return "; ".join(self.told())


def parse_upstream_proxy(text: str) -> UpstreamProxy:
    """Return where the proxy listens, or raise Unfit.

    >>> print(parse_upstream_proxy("http://Proxy.Corp.example:3128/"))
    http://proxy.corp.example:3128
    """
    if "@" in text:
        # Not repeated: what stands before it is a secret.
        hint = (
            f"write `user:password` into a file `{CREDENTIALS}` beside your own policy, and `upstream` into that policy"
        )
        raise Unfit("the proxy is written with credentials", hint)
    found = SHAPE.fullmatch(text)
    if found is None:
        raise Unfit(f"{safe_repr(text)} is no proxy", HOW)
    try:
        host, port = parse_authority(found["authority"], default_port=None)
    except Ambiguous as doubt:
        raise Unfit(f"{safe_repr(text)} is no proxy: {doubt}", HOW) from doubt
    _refuse_what_is_no_other_machine(host, port)
    return UpstreamProxy(tls=found["scheme"].lower() == "https", host=host, port=port)


def _refuse_what_is_no_other_machine(host: str, port: int) -> None:
    hint = f"one on the engine's machine is `http://{ENGINE}:{port}`"
    if host == "localhost" or host.endswith(".localhost"):
        raise Unfit(f"`{host}` is the sandbox's proxy itself", hint)
    if is_address(host) and not is_liftable(host) and (kind := why_forbidden(host)):
        raise Unfit(f"no proxy is dialled at {host} ({kind})", hint if kind == "loopback" else "")


def parse_ca_name(text: str) -> str:
    """Return the name of a file beside the policy, or raise Unfit."""
    if not FILE_NAME.fullmatch(text):
        raise Unfit("certificates lie in a file beside the policy", "name the file alone: `ca: corp-ca.pem`")
    return text
