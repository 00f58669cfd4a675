"""One end of a TLS connection in memory, without a socket or a task."""

import ssl
from contextlib import suppress

FROM_WIRE = 65_536


class TlsEnd:
    """Does the handshake as soon as the other end's bytes arrive."""

    def __init__(self, context: ssl.SSLContext, *, of_server: bool, host: str = "") -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=of_server, server_hostname=host or None
        )

    def take(self, data: bytes = b"") -> tuple[bytes, bytes]:
        """Take bytes from the other end. Return the plaintext, and the bytes to send back."""
        self._incoming.write(data)
        said = bytearray()
        with suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            self._tls.do_handshake()
            while more := self._tls.read(FROM_WIRE):
                said += more
        return bytes(said), self._outgoing.read()

    def wrap(self, data: bytes) -> bytes:
        """Return what to send, nothing if the handshake is not over."""
        with suppress(ssl.SSLWantReadError):
            self._tls.write(data)
        return self._outgoing.read()
