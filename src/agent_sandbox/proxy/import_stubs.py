"""Replace mitmproxy's QUIC modules with stubs, because the proxy never uses QUIC.

mitmproxy's layers always import QUIC: 60 modules, a sixth of the proxy's start time, and an attack surface. The stubs
contain only the names that are imported from them. Nothing creates instances of these classes; an attempt would raise,
and end the connection.
"""

import sys
from types import ModuleType

STUBBED = {
    "mitmproxy.proxy.layers.quic": (
        "ClientQuicLayer",
        "QuicStreamEvent",
        "QuicStreamLayer",
        "RawQuicLayer",
        "ServerQuicLayer",
    ),
    "mitmproxy.proxy.layers.http._http3": ("Http3Client", "Http3Server"),
}


def install_stubs() -> None:
    """Install the stubs, except for modules that are already loaded; call it before anything imports mitmproxy."""
    for name, classes in STUBBED.items():
        module = ModuleType(name)
        vars(module).update({one: type(one, (), {"__module__": name}) for one in classes})
        sys.modules.setdefault(name, module)
