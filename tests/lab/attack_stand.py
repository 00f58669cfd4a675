"""The test bench of the attacks: the real proxy, an allowed server, and an evil one that must never get a byte."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agent_sandbox.proxy.tls.authority import load_authority, now_utc
from capture_server import Capture
from certificates import make_authority
from proxy_stand import ProxyProcess

POLICY = """\
version: 1
domains:
  - host: allowed.test
    rules:
      - methods: [GET, POST]
        path: {prefix: /api/}
      - methods: [GET]
        path: {exact: /ws}
  - host: ports.test
    ports: [8443]
  - "*.wild.test"
  - inside.test
  - 203.0.113.137
deny:
  - host: allowed.test
    rules: [{path: {prefix: /api/secret/}}]
"""
# Makes `inside.test` resolve to 127.0.0.1, as attackers can do with a name that they own.
LEADS_INSIDE = """\
import socket
resolve = socket.getaddrinfo
socket.getaddrinfo = lambda host, *rest, **more: resolve("127.0.0.1" if host == "inside.test" else host, *rest, **more)
"""
ALLOWED = ("allowed.test", "a.wild.test", "a.b.wild.test", "203.0.113.137")
# DNS over HTTPS and TLS. If the proxy connects, it reaches the evil server, so no packet leaves the machine.
RESOLVERS = ("198.51.100.53:443", "198.51.100.53:853", "dns.example:443", "dns.example:853")
EVIL = ("evil.test", "evilallowed.test", "allowed.test.evil.test", "wild.test", "allowed-test")


@dataclass
class Stand:
    """The proxy and the servers of an attack."""

    proxy: ProxyProcess
    allowed: Capture
    allowed_plain: Capture
    evil: Capture

    def forget(self) -> None:
        """Forget all records and requests, before the next attack."""
        self.proxy.forget()
        for capture in (self.allowed, self.allowed_plain, self.evil):
            capture.forget()

    def assert_nothing_got_out(self) -> None:
        """Assert that no server got a connection or a byte."""
        for capture in (self.allowed, self.allowed_plain, self.evil):
            assert (bytes(capture.raw), capture.connections) == (b"", 0)


def dated_certificate(folder: Path, trusted: Path, host: str, *, days: int) -> Path:
    """Write a certificate as of so many days from now, from an authority that is added to the trusted ones."""
    authority = load_authority(folder, now=now_utc())
    trusted.write_bytes(trusted.read_bytes() + authority.pem())
    key = ec.generate_private_key(ec.SECP256R1())
    leaf = authority.leaf(host, key, now=now_utc() + timedelta(days=days))
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "leaf.pem"
    path.write_bytes(secret + leaf.public_bytes(pem))
    return path


def badly_certified(folder: Path, trusted: Path) -> dict[str, Path]:
    """Make certificates that must be rejected; return them by host."""
    (folder / "untrusted").mkdir()
    make_authority(folder / "untrusted", ["untrusted.wild.test"])
    load_authority(folder / "alone", now=now_utc())
    return {
        "untrusted.wild.test": folder / "untrusted" / "leaf.pem",
        "selfsigned.wild.test": folder / "alone" / "private" / "ca.pem",
        # What a server's good certificate looks like to a proxy whose clock is a year ahead, or behind.
        "expired.wild.test": dated_certificate(folder / "expired", trusted, "expired.wild.test", days=-365),
        "early.wild.test": dated_certificate(folder / "early", trusted, "early.wild.test", days=365),
        "wrong.wild.test": folder / "leaf.pem",
    }


@contextmanager
def start_stand(folder: Path) -> Iterator[Stand]:
    """Start everything."""
    authority = make_authority(folder, [*ALLOWED, *EVIL, "ports.test", "inside.test"])
    with ExitStack() as stack:
        allowed = stack.enter_context(Capture(certificate=folder / "leaf.pem"))
        plain = stack.enter_context(Capture())
        evil = stack.enter_context(Capture())
        resolve = {(name, 443): allowed.port for name in ALLOWED}
        resolve |= {(name, 80): plain.port for name in ALLOWED}
        resolve |= {("allowed.test", port): evil.port for port in (22, 25, 53, 8443)}
        resolve |= {(name, port): evil.port for name in EVIL for port in (80, 443)}
        for place in RESOLVERS:
            resolve[(place.partition(":")[0], int(place.partition(":")[2]))] = evil.port
        resolve[("ports.test", 8443)] = allowed.port
        for host, certificate in badly_certified(folder, authority).items():
            resolve[(host, 443)] = stack.enter_context(Capture(certificate=certificate)).port
        resolve[("plain.wild.test", 443)] = stack.enter_context(Capture(greeting=b"220 mail ready\r\n")).port
        proxy = ProxyProcess(folder, POLICY, resolve=resolve, upstream_ca=authority, sabotage=LEADS_INSIDE)
        yield Stand(stack.enter_context(proxy), allowed, plain, evil)
