"""A fault or a cancellation in any hook of ours is a denial: row Y10, invariant I2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from capture import Capture
from certificates import make_authority
from proxystand import ProxyProcess, get

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POLICY = "version: 1\ndomains: [allowed.test]\n"
# Each of these raises what the file says, when the file names it.
TAMPERED = """
import asyncio, functools, pathlib
from agent_sandbox.proxy import dialler, enforcer, front, streamer, tls

def tamper(owner, name):
    original = getattr(owner, name)
    @functools.wraps(original)
    def tampered(*args, **kwargs):
        wanted, _, error = pathlib.Path("{file}").read_text().partition(" ")
        if wanted == name:
            raise eval(error)
        return original(*args, **kwargs)
    setattr(owner, name, tampered)

tamper(enforcer, "decide")
tamper(enforcer, "to_request")
tamper(enforcer, "_rewrite")
tamper(enforcer.Enforcer, "requestheaders")
tamper(front, "decide_tunnel")
tamper(front, "what_it_carries")
tamper(dialler.Dialler, "dial")
tamper(streamer.Streamer, "request")
tamper(streamer.Streamer, "responseheaders")
tamper(streamer, "from_server")
tamper(tls.ClientTls, "tls_start_client")
tamper(tls.ClientTls, "tls_established_client")
tamper(tls.ServerTls, "tls_start_server")
"""
ERRORS = ("ValueError('x')", "asyncio.CancelledError()", "TimeoutError()", "MemoryError()")


@dataclass
class Sabotage:
    """A proxy that falls over where it is told to."""

    proxy: ProxyProcess
    capture: Capture
    file: Path

    def ask_with(self, fault: str) -> bytes:
        """Send an allowed request while `fault` is in place; return what came."""
        self.proxy.forget()
        self.capture.forget()
        self.file.write_text(fault)
        try:
            return self.proxy.ask("allowed.test", get("/x", "allowed.test"))
        except (OSError, AssertionError):
            return b""  # no tunnel came to be, or no TLS in it
        finally:
            self.file.write_text("")


@pytest.fixture(scope="module")
def sabotage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sabotage]:
    """Start it once; faults come and go, and it has to go on."""
    folder = tmp_path_factory.mktemp("faults")
    file = folder / "fault"
    file.write_text("")
    authority = make_authority(folder, ["allowed.test"])
    with Capture(certificate=folder / "leaf.pem") as capture:
        resolve = {("allowed.test", 443): capture.port}
        tampered = TAMPERED.replace("{file}", str(file))
        with ProxyProcess(folder, POLICY, resolve=resolve, upstream_ca=authority, sabotage=tampered) as proxy:
            yield Sabotage(proxy, capture, file)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", ["decide", "to_request", "_rewrite"])
def test_a_fault_while_deciding_is_a_403_and_a_line(sabotage: Sabotage, name: str, error: str) -> None:
    answer = sabotage.ask_with(f"{name} {error}")
    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\nx-agent-sandbox: blocked\r\n")
    line = sabotage.proxy.line(event="request", decision="deny", host="allowed.test", path="/x")
    assert "fault of the proxy" in line["reason"]
    sabotage.proxy.line(event="fault", reason="a fault in the hook requestheaders")
    assert sabotage.capture.connections == 0


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    "name",
    [
        *("requestheaders", "request", "decide_tunnel", "what_it_carries", "dial"),
        *("tls_start_client", "tls_established_client", "tls_start_server"),
    ],
)
def test_a_fault_on_the_way_to_the_server_lets_no_request_through(sabotage: Sabotage, name: str, error: str) -> None:
    answer = sabotage.ask_with(f"{name} {error}")
    assert not answer.startswith(b"HTTP/1.1 200")
    assert sabotage.capture.requests == []


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", ["responseheaders", "from_server"])
def test_a_fault_on_the_way_back_lets_no_answer_through(sabotage: Sabotage, name: str, error: str) -> None:
    assert sabotage.ask_with(f"{name} {error}") == b""


def test_without_a_fault_it_works_again(sabotage: Sabotage) -> None:
    assert sabotage.ask_with("").startswith(b"HTTP/1.1 200")
