"""An error or a cancellation in any of our hooks is a denial: row Y10, invariant I2."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from capture_server import Capture
from certificates import make_authority
from http2client import Http2Client, ask_over_http2, fields
from proxy_stand import ProxyProcess, get, read_all, read_head

POLICY = "version: 1\ndomains: [{host: allowed.test, rules: [{max_body: 10}]}]\n"
# Each of these functions raises the error in the file, if the file names the function.
TAMPERED = """
import asyncio, functools, pathlib
from agent_sandbox.proxy.decide import enforcer, streamer
from agent_sandbox.proxy.front import explicit_proxy
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.mitm import flows, session, stream
from agent_sandbox.proxy.lane import serving, session as lane_session
from agent_sandbox.proxy.tls import contexts
from agent_sandbox.proxy.upstream import dialler

def tamper(owner, name):
    original = getattr(owner, name)
    @functools.wraps(original)
    def tampered(*args, **kwargs):
        wanted, _, error = pathlib.Path("{file}").read_text().partition(" ")
        if wanted == name:
            raise eval(error)
        return original(*args, **kwargs)
    setattr(owner, name, tampered)

tamper(enforcer, "decide_with_secrets")
tamper(enforcer, "to_request")
tamper(enforcer, "_forwarded")
tamper(enforcer, "advise_with")
tamper(explicit_proxy, "is_passthrough")
tamper(session.Session, "review")
tamper(stream.StrictStream, "revoke")
tamper(lane_session.LaneSession, "review")
tamper(lane_session, "revoke")
tamper(lane_session.LaneSession, "abort")
tamper(serving.Serving, "_decide")
tamper(stream.StrictStream, "abort")
tamper(Exchange, "too_large")
tamper(enforcer.Enforcer, "requestheaders")
tamper(explicit_proxy, "decide_tunnel")
tamper(explicit_proxy, "what_it_carries")
tamper(dialler.Dialler, "dial")
tamper(flows.FlowHooks, "request")
tamper(streamer.Streamer, "responseheaders")
tamper(streamer, "from_server")
tamper(contexts.ClientTls, "tls_start_client")
tamper(contexts.ClientTls, "tls_established_client")
tamper(contexts.ServerTls, "tls_start_server")
"""
ERRORS = ("ValueError('x')", "asyncio.CancelledError()", "TimeoutError()", "MemoryError()")


@dataclass
class Sabotage:
    """A proxy with an injected error."""

    proxy: ProxyProcess
    capture: Capture
    file: Path

    def ask_with(self, fault: str, *, http2: bool) -> bytes:
        """Send an allowed request while `fault` is injected. Return the status and the body of the response."""
        self.proxy.forget()
        self.capture.forget()
        self.file.write_text(fault)
        try:
            if http2:
                status, body = ask_over_http2(self.proxy, "allowed.test", "/x")
                return b"%s %s" % (status.encode(), body)
            return self.proxy.ask("allowed.test", get("/x", "allowed.test")).removeprefix(b"HTTP/1.1 ")
        except (OSError, AssertionError):
            return b""  # the tunnel or TLS in it failed
        finally:
            self.file.write_text("")


VERSIONS = pytest.mark.parametrize("http2", [False, True])


@pytest.fixture(scope="module")
def sabotage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sabotage]:
    """Start the proxy once. It must keep working after each error."""
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
@pytest.mark.parametrize("name", ["decide_with_secrets", "to_request", "_forwarded"])
@VERSIONS
def test_an_error_while_deciding_is_a_403_with_an_audit_record(
    sabotage: Sabotage, name: str, error: str, *, http2: bool
) -> None:
    answer = sabotage.ask_with(f"{name} {error}", http2=http2)
    assert answer.startswith(b"403 " if http2 else b"403 Forbidden\r\nx-agent-sandbox: blocked\r\n")
    line = sabotage.proxy.line(event="request", decision="deny", host="allowed.test", path="/x")
    assert "bug in the proxy" in line["reason"]
    sabotage.proxy.line(event="fault", reason="error in hook requestheaders")
    assert sabotage.capture.connections == 0


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    "name",
    [
        *(
            "requestheaders",
            "_decide",
            "request",
            "decide_tunnel",
            "what_it_carries",
            "is_passthrough",
            "dial",
        ),
        *("tls_start_client", "tls_established_client", "tls_start_server"),
    ],
)
@VERSIONS
def test_an_error_before_the_request_is_sent_forwards_no_request(
    sabotage: Sabotage, name: str, error: str, *, http2: bool
) -> None:
    if name == ("_decide" if http2 else "request"):
        return  # a step of the other version
    answer = sabotage.ask_with(f"{name} {error}", http2=http2)
    assert not answer.startswith(b"200")
    assert sabotage.capture.requests == []


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", ["responseheaders", "from_server"])
@VERSIONS
def test_an_error_on_the_way_back_returns_no_response(
    sabotage: Sabotage, name: str, error: str, *, http2: bool
) -> None:
    assert sabotage.ask_with(f"{name} {error}", http2=http2) in (b"", b"closed ")


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", ["too_large", "abort"])
def test_an_error_while_cutting_a_body_does_not_deliver_it_as_complete(
    sabotage: Sabotage, name: str, error: str
) -> None:
    sabotage.capture.forget()
    sabotage.file.write_text(f"{name} {error}")
    try:
        with sabotage.proxy.tls("allowed.test") as stream:
            stream.sendall(get("/x", "allowed.test", "Transfer-Encoding: chunked", method="POST") + b"5\r\nhello\r\n")
            stream.sendall(b"6\r\nworlds\r\n0\r\n\r\n")
            assert not read_all(stream).startswith(b"HTTP/1.1 200")
    finally:
        sabotage.file.write_text("")
    assert sabotage.capture.requests == []


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", ["review", "revoke", "abort"])
@VERSIONS
def test_an_error_while_reviewing_connections_after_a_reload_closes_them(
    sabotage: Sabotage, name: str, error: str, *, http2: bool
) -> None:
    proxy, held = sabotage.proxy, threading.Event()

    def answer(stream: socket.socket, _: bytes) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
        held.wait(30)

    sabotage.capture.answers["/held"] = answer
    try:
        with proxy.tls("allowed.test", alpn=("h2",) if http2 else ()) as stream:
            if http2:
                client = Http2Client(stream)
                assert client.status(client.send(*fields("/held"))) == "200"
            else:
                stream.sendall(get("/held", "allowed.test"))
                assert read_head(stream).startswith(b"HTTP/1.1 200")
            sabotage.file.write_text(f"{name} {error}")
            proxy.policy_file.write_text("version: 1\ndomains: [other.test]\n")
            proxy.command("reload")
            assert b"200" not in read_all(stream)
        assert proxy.ask("allowed.test", get("/x", "allowed.test")).startswith(b"HTTP/1.1 403")
    finally:
        held.set()
        sabotage.file.write_text("")
        proxy.reload(POLICY)


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_in_the_suggestions_still_denies_the_request(sabotage: Sabotage, error: str) -> None:
    sabotage.file.write_text(f"advise_with {error}")
    try:
        assert sabotage.proxy.ask("evil.test", get("/x", "evil.test")).startswith(b"HTTP/1.1 403")
    finally:
        sabotage.file.write_text("")


def test_requests_succeed_again_after_the_injected_errors(sabotage: Sabotage) -> None:
    for http2 in (False, True):
        assert sabotage.ask_with("", http2=http2).startswith(b"200")
