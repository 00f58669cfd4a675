"""The enforcer: the one process between the sandbox and the world.

`front` owns the listening socket and decides where a connection may lead; the layers behind it are mitmproxy's, held to
one destination; `enforcer` decides each request, `dialler` each address, and `audit_log` writes down what was decided.
"""

from agent_sandbox.proxy.import_stubs import install_stubs

install_stubs()
