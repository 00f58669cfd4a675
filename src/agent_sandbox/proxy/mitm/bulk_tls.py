"""TLS that takes from OpenSSL all that it has, and passes it on as it is.

mitmproxy appends each record of 16 KiB to what it has of the others and copies all of it once more; what is encrypted
it fetches in pieces, which are put together again before they are written.
"""

from typing import override

from mitmproxy.connection import ConnectionState
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers import tls
from OpenSSL import SSL

from agent_sandbox.proxy.net.bulk_reader import GULP

Commands = layer.CommandGenerator[None]

RECORD = 16_384
ENCRYPTED = 2 * GULP  # what is read at once, and what TLS adds; memory that is not filled costs nothing


class BulkTls(tls.TLSLayer):
    """One side's TLS, after the handshake as before it."""

    @override
    def receive_data(self, data: bytes) -> Commands:
        if data:
            self.tls.bio_write(data)
        records, ended = self._records()
        # What was read may have called for an answer: a new key for an old one.
        yield from self.tls_interact()
        if records:
            yield from self.event_to_child(events.DataReceived(self.conn, b"".join(records)))
        if ended:
            self.conn.state &= ~ConnectionState.CAN_READ
            yield from self.event_to_child(events.ConnectionClosed(self.conn))

    def _records(self) -> tuple[list[bytes], bool]:
        """Return what stands in the records that are there, and whether the other side has said that it was all."""
        records: list[bytes] = []
        try:
            while True:
                records.append(self.tls.recv(RECORD))
        except SSL.ZeroReturnError:
            return records, True
        except SSL.Error:  # no more yet; or a fault, behind which there never is
            return records, False

    @override
    def tls_interact(self) -> Commands:
        while True:
            try:
                data = self.tls.bio_read(ENCRYPTED)
            except SSL.WantReadError:
                return
            yield commands.SendData(self.conn, data)


class BulkServerTls(BulkTls, tls.ServerTLSLayer):
    """The TLS of an upstream server."""


def install() -> None:
    """Make mitmproxy's HTTP layer use this; it names its own, and leaves no other way in."""
    tls.ServerTLSLayer = BulkServerTls  # type: ignore[misc]
