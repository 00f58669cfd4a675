"""The upstream proxy, and CA certificates that the proxy trusts in addition."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import override

from msgspec import Struct

from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.errors import Ambiguous, InvalidValue
from agent_sandbox.policy.http.addresses import is_liftable, why_forbidden
from agent_sandbox.policy.http.authority import parse_authority
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.policy.match.host_list import FILE_NAME
from agent_sandbox.policy.match.host_pattern import HostPattern
from agent_sandbox.policy.match.host_service import ENGINE
from agent_sandbox.policy.text import MACHINE, safe_repr

HOW = "write `http://proxy.corp.example:3128`, or `https://` if the connection to the proxy uses TLS"
CREDENTIALS = "upstream-auth"
SHAPE = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#]+)/?", re.IGNORECASE)


NOWHERE = Origin(file="", line=1, layer="")


class UpstreamProxy(Struct, frozen=True, kw_only=True):
    """Where the upstream proxy listens. `host` is a name, an address, or `ENGINE`."""

    tls: bool
    host: str
    port: int

    @override
    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorities:
    """CA certificates that are trusted in addition. `name` has the name of the file and a digest of its content."""

    name: str
    pem: str = field(repr=False, compare=False)

    @property
    def file(self) -> str:
        """The name of the file, which is in the same directory as the policy file."""
        return self.name.partition(" ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """The upstream settings of one layer. They are never merged: credentials of a layer go only to that layer's proxy.

    The layer is part of the value, the line is not.
    """

    layer: str
    proxy: UpstreamProxy | None = None
    no_proxy: tuple[HostPattern, ...] = ()
    ca: Authorities | None = None
    origin: Origin = field(default=NOWHERE, repr=False, compare=False)

    def proxy_for(self, host: str) -> UpstreamProxy | None:
        """Return the upstream proxy for a canonical host, None for a direct connection."""
        return None if any(pattern.matches(host) for pattern in self.no_proxy) else self.proxy

    def descriptions(self) -> Iterable[str]:
        """Yield what the settings do, as text."""
        if self.proxy:
            but = f", except {', '.join(map(str, self.no_proxy))}" if self.no_proxy else ""
            yield f"all allowed requests go through {self.proxy}{but}"
        if self.ca:
            yield f"{self.ca.name} can sign for every host"

    def dumped(self) -> dict[str, object]:
        """Return the settings as plain data."""
        return {
            "layer": self.layer,
            "proxy": str(self.proxy) if self.proxy else None,
            "no_proxy": list(map(str, self.no_proxy)),
            "ca": self.ca.name if self.ca else None,
        }

    @override
    def __str__(self) -> str:
        return "; ".join(self.descriptions())


def parse_upstream_proxy(text: str) -> UpstreamProxy:
    """Return the upstream proxy, or raise InvalidValue.

    >>> print(parse_upstream_proxy("http://Proxy.Corp.example:3128/"))
    http://proxy.corp.example:3128
    """
    if "@" in text:
        # The text is not repeated: it contains a password.
        hint = f"put `user:password` into `{CREDENTIALS}` next to your user policy, and `upstream` into that policy"
        raise InvalidValue("the proxy URL has credentials", hint)
    found = SHAPE.fullmatch(text)
    if found is None:
        raise InvalidValue(f"not a proxy URL: {safe_repr(text)}{_why_not(text)}", HOW)
    try:
        host, port = parse_authority(found["authority"], default_port=None)
    except Ambiguous as doubt:
        raise InvalidValue(f"not a proxy URL: {safe_repr(text)}: {doubt}", HOW) from doubt
    _require_other_machine(host, port)
    return UpstreamProxy(tls=found["scheme"].lower() == "https", host=host, port=port)


def _why_not(text: str) -> str:
    """Return why another usual way to name a proxy is not supported."""
    lowered = text.lower()
    if lowered.startswith("pac+") or lowered.endswith((".pac", "wpad.dat")):
        return ": PAC files are programs, and are not read; name the proxy that yours returns"
    return ": only HTTP proxies are supported, not SOCKS" if lowered.startswith("socks") else ""


def _require_other_machine(host: str, port: int) -> None:
    hint = f"a proxy on {MACHINE} is `http://{ENGINE}:{port}`"
    if host == "localhost" or host.endswith(".localhost"):
        raise InvalidValue(f"`{host}` is the sandbox's proxy itself", hint)
    if is_address(host) and not is_liftable(host) and (kind := why_forbidden(host)):
        raise InvalidValue(f"{host} cannot be the upstream proxy ({kind})", hint if kind == "loopback" else "")


def parse_ca_name(text: str) -> str:
    """Return the name of a certificate file, or raise InvalidValue."""
    if not FILE_NAME.fullmatch(text):
        raise InvalidValue(
            "`ca` has to be in the directory of the policy file", "write only the file name: `ca: corp-ca.pem`"
        )
    return text
