"""Take from OpenSSL all that it has.

mitmproxy asks for a record of 16 KiB at a time and appends it to the others, and fetches what is encrypted in pieces,
which are put together again before they are sent. Both copy what they have more than once.
"""

from contextlib import suppress
from typing import override

from OpenSSL import SSL

from agent_sandbox.proxy.gulps import GULP

RECORD = 16_384
ENCRYPTED = 2 * GULP  # what is read at once, and what TLS adds; memory that is not filled costs nothing


class GulpingConnection(SSL.Connection):
    """Gives as much as there is, however little was asked for."""

    @override
    def recv(self, bufsiz: int = RECORD, flags: int | None = None) -> bytes:
        """Return the content of all records that are there; of none, what OpenSSL says to that."""
        records = [super().recv(RECORD)]
        # The end of them, or a fault: who asks again is told.
        with suppress(SSL.Error):
            while True:
                records.append(super().recv(RECORD))
        return b"".join(records)

    @override
    def bio_read(self, bufsiz: int = ENCRYPTED) -> bytes:
        """Return all that waits to be sent."""
        return super().bio_read(ENCRYPTED)
