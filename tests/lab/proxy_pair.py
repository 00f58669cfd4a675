"""A proxy with a policy, and two servers that play all of its hosts: one with TLS, one without."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture_server import Capture
from certificates import make_authority
from changed_limits import limits_with
from proxy_stand import ProxyProcess

# For `sabotage`: tests need not wait as long as clients may take.
HURRY = limits_with(body_seconds=1.0)
# For `sabotage`: the proxy waits before it connects to a server, as long as a file `held` is beside the policy.
HELD = """
import asyncio, pathlib, sys
from agent_sandbox.proxy.upstream import dialler
held = pathlib.Path(sys.argv[2].partition("=")[2]).with_name("held")
class HeldDialler(dialler.Dialler):
    async def dial(self, host, port):
        while held.exists():
            await asyncio.sleep(0.01)
        return await super().dial(host, port)
dialler.Dialler = HeldDialler
"""
NAMES = ("allowed.test", "a.wild.test", "b.wild.test")


@dataclass
class Pair:
    """The proxy and its servers, which answer alike."""

    proxy: ProxyProcess
    server: Capture
    plain: Capture

    def forget(self) -> None:
        """Begin to count from nothing."""
        self.proxy.forget()
        self.server.forget()
        self.plain.forget()


@contextmanager
def hold_dialling(proxy: ProxyProcess) -> Iterator[None]:
    """Hold back connections to servers until the block ends; then give them the time to be made."""
    held = proxy.folder / "held"
    held.touch()
    try:
        yield
    finally:
        held.unlink()
    time.sleep(0.1)


@contextmanager
def start_pair(
    folder: Path, policy: str, *, names: Sequence[str] = NAMES, protocols: Sequence[str] = (), **options: Any
) -> Iterator[Pair]:
    """Start everything. `protocols`: those that the server with TLS chooses from, by ALPN."""
    authority = make_authority(folder, list(names))
    with ExitStack() as stack:
        server = stack.enter_context(Capture(certificate=folder / "leaf.pem", protocols=protocols))
        plain = stack.enter_context(Capture(answers=server.answers))
        resolve = {(name, 443): server.port for name in names} | {(name, 80): plain.port for name in names}
        proxy = ProxyProcess(folder, policy, resolve=resolve, upstream_ca=authority, **options)
        yield Pair(stack.enter_context(proxy), server, plain)
