"""A company's intercepting proxy: it opens all TLS with its own CA, and requires credentials.

It is mitmproxy, as a process of its own: another program than the proxy under test has on that side.
"""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mitmproxy.certs import CertStore

ADDON = """\
import json, sys
LEADS = json.loads({leads!r})
class Company:
    def server_connect(self, data):
        host, port = data.server.address
        data.server.address = ("127.0.0.1", LEADS[f"{{host}}:{{port}}"])
        data.server.sni = host
    def request(self, flow):
        print(json.dumps([flow.request.method, flow.request.path]), flush=True)
addons = [Company()]
"""


@dataclass
class Intercepting:
    """Runs it. `leads` are ports of loopback by `host:port`, `trusts` the authority that signed for the servers."""

    folder: Path
    leads: Mapping[str, int]
    trusts: Path
    credentials: str
    said: str = ""

    @property
    def authority(self) -> Path:
        """The certificate of its CA."""
        return self.folder / "mitmproxy-ca-cert.pem"

    def __enter__(self) -> Self:
        """Start it, and wait until it listens."""
        CertStore.from_store(self.folder, "mitmproxy", 2048)
        (self.folder / "addon.py").write_text(ADDON.format(leads=json.dumps(dict(self.leads))))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        start = "import sys; from mitmproxy.tools.main import mitmdump; mitmdump(sys.argv[1:])"
        options = (f"confdir={self.folder}", f"ssl_verify_upstream_trusted_ca={self.trusts}", "flow_detail=0")
        argv = ["--listen-host=127.0.0.1", f"--listen-port={self.port}", f"--proxyauth={self.credentials}", "--quiet"]
        argv += [f"--set={option}" for option in options] + [f"--scripts={self.folder}/addon.py"]
        self.process = subprocess.Popen([sys.executable, "-c", start, *argv], stdout=subprocess.PIPE, text=True)
        self._wait()
        return self

    def _wait(self) -> None:
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert time.monotonic() < end, "it does not listen"
                time.sleep(0.05)
            else:
                return

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.process.terminate()
        self.said = self.process.communicate(timeout=30)[0]

    @property
    def seen(self) -> list[list[str]]:
        """The requests that it read, once it has ended."""
        return [json.loads(line) for line in self.said.splitlines()]
