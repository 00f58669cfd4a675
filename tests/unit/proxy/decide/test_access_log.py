import json

from agent_sandbox.policy import Effect
from agent_sandbox.proxy.audit.audit_log import AuditLog
from agent_sandbox.proxy.audit.record import SecretUse
from agent_sandbox.proxy.decide.access_log import AccessLog
from agent_sandbox.proxy.exchange.exchange import Exchange, Outcome, open_exchange
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.message import RequestHead

TUNNEL = Tunnel(client="10.0.0.3", carries=Carries.TLS, host="a.test", port=443)


class Book:
    """A journal whose lines can be read."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        audit_log = AuditLog([self.lines.append], clock=lambda: 0.0)
        self.journal = AccessLog(audit_log, clock=lambda: 2.0)
        self.audit_log = audit_log


def ended(*, status: int | None = None, effect: Effect = Effect.ALLOW) -> Exchange:
    exchange = open_exchange(RequestHead(b"GET", b"/x?y", b"HTTP/1.1", ()), TUNNEL, started=1.5)
    exchange.outcome, exchange.status = Outcome(effect, "why"), status
    exchange.sent.count, exchange.received.count = 3, 4
    return exchange


def test_writes_one_record_for_an_answered_request() -> None:
    book, made = Book(), ended(status=200)
    book.journal.response(made, TUNNEL)
    book.journal.error(made, TUNNEL)
    assert len(book.lines) == 1
    assert json.loads(book.lines[0]) == {
        "time": "1970-01-01T00:00:00.000Z",
        "event": "request",
        "decision": "allow",
        "rule": None,
        "cause": "",
        "reason": "why",
        "scheme": "",
        "host": "a.test",
        "port": 443,
        "method": "GET",
        "path": "/x",
        "status": 200,
        "tool": "",
        "bytes_in": 4,
        "bytes_out": 3,
        "duration_ms": 500.0,
        "client": "10.0.0.3",
    }


def test_a_used_secret_is_in_one_record_and_counted_once() -> None:
    book, made, counted = Book(), ended(status=401), list[object]()
    log = AccessLog(book.audit_log, clock=lambda: 2.0, count=lambda *said, refused: counted.append((*said, refused)))
    use = SecretUse(secret="token", kind="bearer", source="command", age=61.7)
    made.secrets = (use,)
    log.response(made, TUNNEL)
    log.websocket_end(made, TUNNEL)
    first, second = map(json.loads, book.lines)
    assert first["secrets"] == [{"secret": "token", "kind": "bearer", "source": "command", "age_s": 62}]
    assert ("secrets" in second, counted) == (False, [((use,), made.host, 401, True), ((), made.host, 401, True)])


def test_writes_a_record_at_the_start_and_the_end_of_a_websocket() -> None:
    book, made = Book(), ended(status=200)
    book.journal.response(made, TUNNEL)
    book.journal.websocket_end(made, TUNNEL)
    assert [b'"event": "websocket"' in line for line in book.lines] == [False, True]


def test_writes_a_record_of_malformed_input() -> None:
    book = Book()
    book.journal.malformed("a bare LF", TUNNEL)
    assert b'"event": "malformed", "decision": "deny"' in book.lines[0]
    assert b'"reason": "a bare LF", "scheme": "", "host": "a.test", "port": 443' in book.lines[0]


def test_a_failed_tls_handshake_is_a_record_but_not_counted_as_a_denial() -> None:
    book = Book()
    book.journal.tls_failed_client("unknown ca", TUNNEL)
    assert b'"reason": "TLS handshake with the client failed: unknown ca"' in book.lines[0]
    assert book.audit_log.counts == {"allowed": 0, "denied": 0, "starts": 0}


def test_releases_a_held_request_after_its_record() -> None:
    book, made = Book(), ended(status=200)
    made.held = True
    book.journal.error(made, TUNNEL)
    assert not made.held
