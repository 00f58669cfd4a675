"""What each performance shim of the proxy does, undone: Python that runs in the proxy's process before the proxy does.

A snippet restores what mitmproxy or Python would do without the shim. It is a string because it must run before the
proxy's modules are imported, in an order that only the snippet knows.
"""

from __future__ import annotations

WITHOUT = {
    "exit without unloading": """
import agent_sandbox.proxy.__main__ as program
program.leave = lambda code: sys.exit(code)
""",
    "type check of messages off": """
from mitmproxy import http
from agent_sandbox.proxy.mitm import http1_client
check, install = http.MessageData.__post_init__, http1_client.install
def keep_check():
    install()
    http.MessageData.__post_init__ = check
http1_client.install = keep_check
""",
    "EngineOptions": """
import dataclasses
from mitmproxy.options import Options
from agent_sandbox.proxy.mitm import session
known = {}
def registry(options):
    if not known:
        known["it"] = Options()
        for name, value in dataclasses.asdict(options).items():
            if name not in known["it"]:
                known["it"].add_option(name, type(value) if value is not None else str | None, value, "")
            else:
                known["it"].update(**{name: value})
    return known["it"]
session.as_mitmproxy = registry
""",
    "hooks run in place": """
from agent_sandbox.proxy.mitm import http_layer, session
def handle(self, event):
    for command in http_layer.coalesce(self._child.handle_event(event)):
        if isinstance(command, http_layer.AbortConnection):
            self._abort(command.connection)
        yield command
async def run_hook(self, hook):
    self.layer._run(hook, self.layer._http.owner_of(hook))
http_layer.Destination._handle_event = handle
session.Session.handle_hook = run_hook
""",
    "coalesce": """
from agent_sandbox.proxy.mitm import http_layer
http_layer.coalesce = iter
""",
    "bulk_tls": """
from mitmproxy.proxy.layers import tls
from agent_sandbox.proxy.mitm import bulk_tls
bulk_tls.BulkTls.receive_data = tls.TLSLayer.receive_data
bulk_tls.BulkTls.tls_interact = tls.TLSLayer.tls_interact
""",
    "TLS writes of several records": """
from OpenSSL import SSL
SSL.Context.clear_mode = lambda self, mode: None
""",
    "BulkReader": """
from agent_sandbox.proxy.mitm import bulk_tls
from agent_sandbox.proxy.net import bulk_reader
bulk_reader.LARGE_READ = 65_535
""",
    "BodyBuffer": """
from agent_sandbox.proxy.wire.body_buffer import BodyBuffer
for name in ("__iadd__", "maybe_extract_at_most", "_extract"):
    delattr(BodyBuffer, name)
""",
    "certificates kept": """
from agent_sandbox.proxy.tls import contexts
contexts.REMEMBERED_HOSTS = 0
""",
    "nothing (the noise of this measurement)": "pass",
}
