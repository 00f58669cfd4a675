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


async def test_records_a_denial_and_sends_it_to_the_client() -> None:
    reader, writer, transport = memory_streams()
    lines: list[AuditRecord] = []
    await Rejection(lines.append, PeekableReader(reader, Place(Held())), writer).deny(
        Denial(reason="no", status=400), AuditRecord(event=Event.MALFORMED)
    )
    writer.close()
    assert lines == [AuditRecord(event=Event.MALFORMED, reason="no", status=400)]
    assert json.loads(transport.written.partition(b"\r\n\r\n")[2])["reason"] == "no"


async def test_a_denied_connect_has_the_reason_in_its_status_line() -> None:
    reader, writer, transport = memory_streams()
    denial = Denial(reason="no", method="CONNECT")
    await Rejection(lambda _: None, PeekableReader(reader, Place(Held())), writer).deny(
        denial, AuditRecord(event=Event.CONNECT)
    )
    writer.close()
    assert transport.written.startswith(b"HTTP/1.1 403 Blocked by agent-sandbox: no\r\n")


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
    reader, writer, transport = memory_streams()
    lines: list[AuditRecord] = []
    await Rejection(lines.append, PeekableReader(reader, Place(Held())), writer).refuse(
        fault, AuditRecord(event=Event.TLS)
    )
    writer.close()
    assert [(line.event, line.reason) for line in lines] == [(event, str(fault))]
    assert transport.written == said


async def test_a_connection_that_cannot_be_served_gets_an_alert() -> None:
    reader, writer, transport = memory_streams()
    lines: list[AuditRecord] = []
    tunnel = Tunnel(client="10.0.0.2:40000", carries=Carries.TLS, host="a.test", port=443)
    await Rejection(lines.append, PeekableReader(reader, Place(Held())), writer).fail("broken", tunnel)
    writer.close()
    (line,) = lines
    assert (line.event, line.reason, line.host, line.port) == (Event.FAULT, "broken", "a.test", 443)
    assert line.client == "10.0.0.2:40000"
    assert transport.written == b"\x15\x03\x03\x00\x02\x02\x50"


async def test_kill_sends_nothing_by_default() -> None:
    reader, writer, transport = memory_streams()
    await Rejection(lambda _: None, PeekableReader(reader, Place(Held())), writer).kill(
        AuditRecord(event=Event.RAW_TUNNEL)
    )
    writer.close()
    assert transport.written == b""


async def test_kill_stops_reading_after_the_linger_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "LINGER_SECONDS", 0.01)
    reader, writer, transport = memory_streams()
    transport.ends_reading = False
    reader.feed_data(b"SSH-2.0-x")
    await Rejection(lambda _: None, PeekableReader(reader, Place(Held())), writer).kill(
        AuditRecord(event=Event.RAW_TUNNEL), b"bye"
    )
    writer.close()
    assert transport.written == b"bye"


async def test_kill_stops_reading_after_the_linger_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "LINGER_SECONDS", 60.0)
    monkeypatch.setattr(subject, "LINGER_BYTES", 10)
    reader, writer, transport = memory_streams()
    transport.ends_reading = False
    reader.feed_data(b"x" * 10)
    await Rejection(lambda _: None, PeekableReader(reader, Place(Held())), writer).kill(
        AuditRecord(event=Event.RAW_TUNNEL), b"bye"
    )
    writer.close()
    assert transport.written == b"bye"
