import json

import pytest

from agent_sandbox.audit_event import Event
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.exchange.denial import Denial
from agent_sandbox.proxy.front import rejection as subject
from agent_sandbox.proxy.front.rejection import Rejection
from agent_sandbox.proxy.net.connection_limit import Held, Place
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.sniff import RawTunnelError, WrongNameError
from memory_streams import memory_streams


class Rejected:
    """A client that is rejected, what it got, and the records."""

    def __init__(self) -> None:
        self.lines: list[AuditRecord] = []
        self.reader, self._writer, self._transport = memory_streams()
        self.rejection = Rejection(self.lines.append, PeekableReader(self.reader, Place(Held())), self._writer)

    def keeps_sending(self, data: bytes) -> None:
        """Have the client send, and not end."""
        self._transport.ends_reading = False
        self.reader.feed_data(data)

    def got(self) -> bytes:
        """Return what the client got."""
        self._writer.close()
        return self._transport.written


async def test_records_a_denial_and_sends_it_to_the_client() -> None:
    client = Rejected()
    await client.rejection.deny(Denial(reason="no", status=400), AuditRecord(event=Event.MALFORMED))
    assert client.lines == [AuditRecord(event=Event.MALFORMED, reason="no", status=400)]
    assert json.loads(client.got().partition(b"\r\n\r\n")[2])["reason"] == "no"


async def test_a_denied_connect_has_the_reason_in_its_status_line() -> None:
    client = Rejected()
    await client.rejection.deny(Denial(reason="no", method="CONNECT"), AuditRecord(event=Event.CONNECT))
    assert client.got().startswith(b"HTTP/1.1 403 Blocked by agent-sandbox: no\r\n")


@pytest.mark.parametrize(
    ("fault", "event", "said"),
    [
        (WrongNameError("sni_missing"), Event.TLS, b"\x15\x03\x03\x00\x02\x02\x70"),
        (RawTunnelError("not TLS"), Event.RAW_TUNNEL, b""),
    ],
)
async def test_a_wrong_name_gets_an_alert_and_a_raw_tunnel_gets_no_answer(
    fault: RawTunnelError | WrongNameError, event: Event, said: bytes
) -> None:
    client = Rejected()
    await client.rejection.refuse(fault, AuditRecord(event=Event.TLS))
    assert [(line.event, line.reason) for line in client.lines] == [(event, str(fault))]
    assert client.got() == said


async def test_a_connection_that_cannot_be_served_gets_an_alert() -> None:
    client, tunnel = Rejected(), Tunnel(client="10.0.0.2:40000", carries=Carries.TLS, host="a.test", port=443)
    await client.rejection.fail("broken", tunnel)
    (line,) = client.lines
    assert (line.event, line.reason, line.host, line.port) == (Event.FAULT, "broken", "a.test", 443)
    assert line.client == "10.0.0.2:40000"
    assert client.got() == b"\x15\x03\x03\x00\x02\x02\x50"


async def test_kill_stops_reading_after_the_linger_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "LINGER_SECONDS", 0.01)
    client = Rejected()
    client.keeps_sending(b"SSH-2.0-x")
    await client.rejection.kill(AuditRecord(event=Event.RAW_TUNNEL), b"bye")
    assert client.got() == b"bye"


async def test_kill_stops_reading_after_the_linger_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "LINGER_SECONDS", 60.0)
    monkeypatch.setattr(subject, "LINGER_BYTES", 10)
    client = Rejected()
    client.keeps_sending(b"x" * 10)
    await client.rejection.kill(AuditRecord(event=Event.RAW_TUNNEL), b"bye")
    assert client.got() == b"bye"
