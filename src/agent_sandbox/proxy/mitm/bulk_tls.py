"""TLS layers that read from OpenSSL in bulk, with fewer copies.

mitmproxy copies all decrypted records again for each further record of 16 KiB. It fetches encrypted data in small
pieces, which have to be joined before they are written.
"""

from typing import override

from mitmproxy.connection import ConnectionState
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers import tls
from OpenSSL import SSL

from agent_sandbox.proxy.net.bulk_reader import LARGE_READ
from agent_sandbox.proxy.tls.failure import explain, why_failed

Commands = layer.CommandGenerator[None]

RECORD = 16_384
ENCRYPTED = 2 * LARGE_READ  # one read plus the overhead of TLS; memory that is not filled costs nothing


class BulkTls(tls.TLSLayer):
    """The TLS of one side."""

    @override
    def receive_data(self, data: bytes) -> Commands:
        if data:
            self.tls.bio_write(data)
        records, ended = self._records()
        # The data may have required an answer, such as a key update.
        yield from self.tls_interact()
        if records:
            yield from self.event_to_child(events.DataReceived(self.conn, b"".join(records)))
        if ended and self.conn.state & ConnectionState.CAN_READ:
            self.conn.state &= ~ConnectionState.CAN_READ
            yield from self.event_to_child(events.ConnectionClosed(self.conn))

    def _records(self) -> tuple[list[bytes], bool]:
        """Return the content of all available records, and whether no more will come."""
        records: list[bytes] = []
        try:
            while True:
                records.append(self.tls.recv(RECORD))
        except SSL.WantReadError:
            return records, False
        except SSL.ZeroReturnError:
            return records, True
        except SSL.Error as error:
            # In TLS 1.3, a server refuses the client's certificate after the handshake. It may close nothing.
            self.conn.error = self.conn.error or why_failed(error, self.tls)
            return records, True

    @override
    def tls_interact(self) -> Commands:
        while True:
            try:
                data = self.tls.bio_read(ENCRYPTED)
            except SSL.WantReadError:
                return
            if self.conn.state & ConnectionState.CAN_WRITE:  # asyncio raises after the end, even for an alert
                yield commands.SendData(self.conn, data)


class BulkServerTls(BulkTls, tls.ServerTLSLayer):
    """The TLS of a server."""

    @override
    def _handshake_finished(self, err: str | None) -> Commands:
        yield from super()._handshake_finished(explain(err) if err else None)


def install() -> None:
    """Replace the class that mitmproxy's HTTP layer uses: its name is hard-coded there."""
    tls.ServerTLSLayer = BulkServerTls  # type: ignore[misc]
