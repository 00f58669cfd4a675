"""The proxy process, through which all traffic of the sandbox goes.

`front` accepts connections and decides where they may lead. `lane` serves HTTP/1.1, and `mitm` runs mitmproxy's layers
for HTTP/2, bound to one destination. `decide` decides each request, `upstream` checks each address, and `audit` records
every decision.
"""

from agent_sandbox.proxy.import_stubs import install_stubs

install_stubs()
