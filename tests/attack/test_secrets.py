"""What a policy allows with a secret alone: until one can be put in, it goes nowhere, whatever comes in its place."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from http2client import Http2Client, fields
from pair import Pair, start_pair
from proxystand import get, read_answer, read_head

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

KEY = (
    "{request: {headers: {Authorization: {secret: tracker.token, transform: {type: bearer}}}, on_existing_header: %s}}"
)
POLICY = f"""\
version: 1
domains:
  - host: allowed.test
    transform: {KEY % "fail"}
    rules: [{{path: {{prefix: /issues/}}}}]
  - host: allowed.test
    transform: {KEY % "replace"}
    rules: [{{path: {{prefix: /wiki/}}}}]
  - {{host: allowed.test, rules: [{{path: {{prefix: /open/}}}}]}}
"""
WITHOUT = "version: 1\ndomains: [allowed.test]\n"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy whose policy names a secret."""
    with start_pair(tmp_path_factory.mktemp("secrets"), POLICY) as pair:
        yield pair


@pytest.fixture
def pair(started: Pair) -> Pair:
    """The same, with its policy, and nothing on its records."""
    replace_policy(started, POLICY)
    started.forget()
    return started


def replace_policy(pair: Pair, policy: str) -> None:
    pair.proxy.policy_file.write_text(policy)
    assert pair.proxy.command("reload").returncode == 0


CREDENTIALS = {
    "none": (),
    "the agent's own": ("Authorization: Bearer own",),
    "two of them": ("Authorization: Bearer own", "authorization: Basic b3duOm93bg=="),
    "spelled as a variable": ("Authorization_: Bearer own", "AUTHORIZATION: x"),
    "the name of the secret": ("Authorization: Bearer tracker.token",),
    "said to end at the proxy": ("Connection: authorization", "Authorization: Bearer own"),
    "for the proxy": ("Proxy-Authorization: Bearer own",),
}


@pytest.mark.parametrize("brought", CREDENTIALS)
@pytest.mark.parametrize("path", ["/issues/1", "/wiki/start"])
def test_what_wants_a_secret_goes_nowhere_without_it(pair: Pair, path: str, brought: str) -> None:
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(get(path, "allowed.test", *CREDENTIALS[brought]))
        status, body = read_answer(stream)
    assert (status, pair.server.requests) == (403, [])
    told = json.loads(body)
    assert "a request without secret tracker.token in authorization is not" in told["reason"]
    assert told["hint"].startswith("no secret is put in yet: take `transform` or `auth` out")
    line = pair.proxy.line(path=path)
    assert (line["decision"], line["cause"], line["bytes_out"]) == ("deny", "injection", 0)


def test_neither_does_a_stream_of_http2(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        assert client.status(client.send(*fields("/issues/1"), ("authorization", "Bearer own"))) == "403"
    assert pair.server.requests == []


def test_what_is_allowed_without_one_passes_as_it_is(pair: Pair) -> None:
    assert pair.proxy.ask("allowed.test", get("/open/x", "allowed.test")).startswith(b"HTTP/1.1 200")
    (request,) = pair.server.requests
    assert request.field("authorization") == []


def test_a_policy_that_wants_one_from_now_on_ends_what_went_without(pair: Pair) -> None:
    replace_policy(pair, WITHOUT)
    arrived, answered = threading.Event(), threading.Event()

    def wait(_: socket.socket, __: bytes) -> None:
        arrived.set()
        answered.wait(5)

    pair.server.answers["/issues/1"] = wait
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(get("/issues/1", "allowed.test"))
        assert arrived.wait(3)
        replace_policy(pair, POLICY)
        assert read_head(stream).startswith(b"HTTP/1.1 403")
    answered.set()
    del pair.server.answers["/issues/1"]
