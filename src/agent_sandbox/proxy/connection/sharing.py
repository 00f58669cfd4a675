"""Decide whether other clients may use a server connection after an exchange.

In doubt, only the client of that exchange uses it again. Each check excludes a case in which a server may still send
something, or treat what it receives next as the same client's.
"""

import re
from collections.abc import Iterator

from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.wire.header_fields import FOLDED
from agent_sandbox.proxy.wire.http1_head import SWITCHING, ResponseHead
from agent_sandbox.proxy.wire.message import Fields, has_field, value_of

CREDENTIALS = frozenset({b"authorization", b"proxy-authorization"})
CHALLENGES = frozenset(
    {b"www-authenticate", b"proxy-authenticate", b"authentication-info", b"proxy-authentication-info"}
)
# Schemes that authenticate each request. NTLM, Negotiate and unknown schemes may authenticate the whole connection.
PER_REQUEST = frozenset(
    {
        *("apikey", "aws", "aws4-ecdsa-p256-sha256", "aws4-hmac-sha256", "basic", "bearer"),
        *("digest", "dpop", "oauth", "sharedkey", "token"),
    }
)
CONNECTION_BOUND = re.compile(r"\b(ntlm|negotiate|nego2|kerberos)\b", re.IGNORECASE)
# Servers that authenticate connections announce it with these.
ANNOUNCED = frozenset({b"persistent-auth", b"proxy-support"})
# Versions of a client's request that the proxy forwards as HTTP/1.1; it forwards HTTP/1.0 as HTTP/1.0.
VERSIONS = frozenset({b"HTTP/1.1", b"HTTP/2.0"})
# Requests that may be sent twice.
REPEATABLE = frozenset({b"GET", b"HEAD", b"OPTIONS"})
WITH_BODY = frozenset({b"PATCH", b"POST", b"PROPFIND", b"PUT", b"REPORT"})
TIMEOUT = re.compile(r"(?:^|,)\s*timeout\s*=\s*\"?([0-9]{1,6})", re.IGNORECASE)
# A server closes at the time that it announces: a request sent just before would get no response.
MARGIN_SECONDS = 1.0


def asks_for_own(fields: Fields) -> bool:
    """Return whether a request with these fields may authenticate the connection."""
    if _names(fields).isdisjoint(CREDENTIALS):
        return False
    return any(value.partition(" ")[0].lower() not in PER_REQUEST for value in _values(fields, CREDENTIALS))


def may_be_shared(exchange: Exchange, answer: ResponseHead, *, has_body: bool, is_early: bool) -> bool:
    """Return whether other clients may use the connection after this exchange. `asks_for_own` is a separate check.

    `has_body`: the request had one. `is_early`: the response began before the whole request was sent.
    """
    sent = exchange.forwarded
    if sent is None or exchange.grants or exchange.websocket or is_early:
        return False
    if answer.status == SWITCHING:
        return False  # what follows is not HTTP
    if has_body and sent.method not in WITH_BODY:
        return False  # some servers take such a body for the next request
    if answer.version != "HTTP/1.1" or sent.version not in VERSIONS or _may_have_stray_body(sent.method, answer):
        return False
    return not _authenticates(answer.fields)


def seconds_to_keep(fields: Fields) -> float:
    """Return how long a server keeps an idle connection open, by the fields of its response.

    >>> seconds_to_keep(((b"Keep-Alive", b"timeout=5, max=100"),))
    4.0
    """
    said = TIMEOUT.search(value) if (value := value_of(fields, b"keep-alive")) else None
    return float(said[1]) - MARGIN_SECONDS if said else float("inf")


def _may_have_stray_body(method: bytes, answer: ResponseHead) -> bool:
    """Return whether a response without a body declares one: some servers then send it."""
    if answer.has_body(method.decode()):
        return False
    return has_field(answer.fields, b"transfer-encoding") or value_of(answer.fields, b"content-length", "0") != "0"


def _authenticates(fields: Fields) -> bool:
    names = _names(fields)
    if names.isdisjoint(CHALLENGES):
        return not names.isdisjoint(ANNOUNCED)
    named = any(CONNECTION_BOUND.search(value) for value in _values(fields, CHALLENGES))
    return named or not names.isdisjoint(ANNOUNCED)


def _names(fields: Fields) -> set[bytes]:
    return {name.translate(FOLDED) for name, _ in fields}


def _values(fields: Fields, names: frozenset[bytes]) -> Iterator[str]:
    for name, value in fields:
        if name.translate(FOLDED) in names:
            yield value.decode("latin-1")
