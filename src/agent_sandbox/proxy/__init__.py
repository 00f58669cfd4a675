"""The proxy process, through which all traffic of the sandbox goes.

`front` accepts connections and decides where they may lead. `mitm` runs mitmproxy's layers, bound to one destination.
`decide` decides each request, `upstream` checks each address, and `audit` records every decision.
"""

from agent_sandbox.proxy.import_stubs import install_stubs

install_stubs()
