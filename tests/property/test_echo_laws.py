"""The law of echoes: of all that was sent with a request, a response shows the client nothing, wherever it repeats it.

Each pair of things that can be injected together is tried with each class of status and each place in a response. Only
a session token on its own may be read in a successful response: it is of no use without the secret key.
"""

import gzip
import json
from base64 import b64encode
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import pytest

from agent_sandbox.policyfile import load_policy
from agent_sandbox.proxy.decide.enforcer import Enforcer
from agent_sandbox.proxy.decide.streamer import Streamer
from agent_sandbox.proxy.exchange.exchange import Exchange, Meter, open_exchange
from agent_sandbox.proxy.secrets.injector import Injector
from agent_sandbox.proxy.secrets.login import put_login
from agent_sandbox.proxy.secrets.placeholder import Placeholders
from agent_sandbox.proxy.secrets.redacted_frames import server_frames
from agent_sandbox.proxy.secrets.store import put_secret
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.message import RequestHead, ResponseHead
from agent_sandbox.proxy.wire.websocket_frames import TEXT, frame
from packing import whole

TUNNEL = Tunnel(client="", carries=Carries.TLS, host="a.test", port=443)
PLACEHOLDERS = Placeholders(b"k" * 32)
# How each is written in the policy: a header and its transformation, or None for a parameter of the query.
KINDS: dict[str, tuple[str, str] | None] = {
    "bearer": ("X-Bearer", "{type: bearer}"),
    "basic": ("X-Basic", "{type: basic, username: bot}"),
    "raw": ("X-Raw", "{type: raw}"),
    "query": None,
    "login": ("X-Login", "{type: bearer}"),
    "git": ("Authorization", "{type: basic, username: x-access-token}"),
    "sigv4": ("Authorization", "{type: sigv4, region: r, service: s3}"),
    "session": ("Authorization", "{type: sigv4, region: r, service: s3}"),
}
VALUES = {name: f"the-{name}/value+of=it" for name in KINDS} | {
    "sigv4": "AKIAREAL:the-secret-key-itself",
    "session": "ASIAREAL:the-secret-key-itself:the-session/token+of=it",
}
# What the server gets, and could repeat. A secret key is not sent.
SENT = {
    name: (value.encode(), b64encode(f"{user}:{value}".encode()))
    for name, value in VALUES.items()
    for user in ["x-access-token" if name == "git" else "bot"]
} | {"sigv4": (), "session": (b"the-session/token+of=it",)}
CLAIM = f"AWS4-HMAC-SHA256 Credential=AKIA%s/20260101/r/s3/aws4_request, SignedHeaders=host, Signature={'0' * 64}"
STATUSES = (101, 200, 301, 400, 503)
PLACES = ("field", "reason", "body", "compressed", "trailer", "message")


def header_of(name: str) -> str:
    how = KINDS[name]
    return how[0] if how else ""


SETS = [
    *((name,) for name in KINDS),
    # A header holds one credential.
    *(pair for pair in combinations(KINDS, 2) if len({header_of(name) for name in pair}) == 2),
]


def policy_of(names: tuple[str, ...]) -> str:
    headers = ", ".join(
        f"{how[0]}: {{secret: {name}, transform: {how[1]}}}" for name in names if (how := KINDS[name]) is not None
    )
    query = ", query: {key: {secret: query}}" if "query" in names else ""
    request = f"headers: {{{headers}}}{query}" if headers else query.removeprefix(", ")
    return f"version: 1\ndomains:\n- host: a.test\n  transform: {{request: {{{request}}}}}\n"


def store(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        if name == "login":
            said = {
                "endpoints": ["https://login.test/token"],
                "begins": {"access": "sk-", "refresh": "rt-"},
                "answer": {"access_token": "{access}"},
                "value": VALUES[name],
                "lifetime": 1000,
            }
            put_login(folder, name, ["a.test"], json.dumps(said).encode())
        else:
            put_secret(folder, name, ["a.test"], VALUES[name].encode())


def allowed(folder: Path, names: tuple[str, ...]) -> Exchange:
    """Return an exchange that the enforcer allowed, with these secrets injected."""
    (folder / "policy.yaml").write_text(policy_of(names))
    policy = load_policy(folder / "policy.yaml")
    signed = next((name for name in names if name in {"sigv4", "session"}), None)
    claims = ((b"Authorization", (CLAIM % PLACEHOLDERS.ending(signed)).encode()),) if signed else ()
    fields = ((b"Host", b"a.test"), (b"X-Amz-Date", b"20260101T000000Z"), *claims)
    head = RequestHead(b"GET", b"/x", b"HTTP/1.1", fields, b"", "a.test", 443, b"https")
    exchange = open_exchange(head, TUNNEL, started=0.0)
    injector = Injector(folder / "secrets", placeholders=PLACEHOLDERS)
    Enforcer(lambda: policy, clock=lambda: 0.0, injector=injector).requestheaders(exchange, TUNNEL)
    assert exchange.forwarded, exchange.outcome
    assert {one.secret for one in exchange.secrets} == {*names}
    return exchange


def returned(exchange: Exchange, status: int, place: str, echo: bytes) -> bytes:
    """Return what the client gets of a response that repeats `echo` in one place."""
    exchange.websocket = status == 101
    fields = (
        (b"Upgrade", b"websocket" if status == 101 else b""),
        (b"X-You-Sent", echo if place == "field" else b""),
        (b"Content-Encoding", b"gzip" if place == "compressed" else b""),
    )
    exchange.response = ResponseHead(status, echo if place == "reason" else b"OK", fields)
    assert exchange.why_unforwardable(status, exchange.response.fields) == ""
    streamer = Streamer()
    streamer.responseheaders(exchange, TUNNEL)
    assert exchange.returned
    if place == "message":
        frames = server_frames(exchange.echoes, longest=1000)
        return b"".join(frames.read(frame(TEXT, echo, ends=True))) if status == 101 else b""
    sent = {"body": echo, "compressed": gzip.compress(echo)}.get(place, b"")
    body = whole(exchange.received, sent)
    exchange.trailers = ((b"X-You-Sent", echo),) if place == "trailer" else None
    streamer.response(exchange, TUNNEL)
    return repr((exchange.returned, body, exchange.trailers)).encode()


def may_be_read(names: tuple[str, ...], status: int) -> bool:
    return {*names} <= {"sigv4", "session"} and 200 <= status < 300


@pytest.mark.parametrize("names", SETS, ids="+".join)
def test_no_response_shows_any_secret_that_was_sent_with_the_request(tmp_path: Path, names: tuple[str, ...]) -> None:
    for folder in ("secrets", "run"):
        (tmp_path / folder).mkdir()
    store(tmp_path / "secrets", names)
    first = allowed(tmp_path, names)
    shown = []
    for status, place, name in product(STATUSES, PLACES, names):
        for echo in SENT[name]:
            exchange = replace(first, received=Meter())
            if echo in returned(exchange, status, place, echo) and not may_be_read(names, status):
                shown.append((status, place, name, echo))
    assert shown == []
