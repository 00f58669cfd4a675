"""What of mitmproxy is never loaded: QUIC, which no listener of ours takes and no dialler of ours speaks.

mitmproxy's layers import it with each other: a sixth of the time that the proxy takes to start, 60 modules, and a
parser of what anybody may send. In their place stand modules with the names that are imported from them. Nothing
makes a value of these classes; who tried would fail, and the connection with it.
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
    """Put the empty modules in their places, before anything imports the full ones; one that is loaded stays."""
    for name, classes in STUBBED.items():
        module = ModuleType(name)
        vars(module).update({one: type(one, (), {"__module__": name}) for one in classes})
        sys.modules.setdefault(name, module)
