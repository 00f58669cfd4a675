"""Parse a TLS ClientHello for the host name that the client wants to reach.

The message may be split over records and packets. Only what the decision needs is parsed. The unchanged bytes go to
OpenSSL, and after the handshake the name that it found is compared too (`tls.contexts`).
"""

from msgspec import Struct

HANDSHAKE_RECORD = 0x16
CLIENT_HELLO = 1
SERVER_NAME = 0x0000
PROTOCOLS = 0x0010  # ALPN
# ECH, its drafts, and their predecessor ESNI.
ENCRYPTED_HELLO = frozenset({0xFFCE, 0xFF02, *range(0xFE08, 0xFE0E)})
HOST_NAME = 0
RECORD_BYTES = 2**14 + 256
EXTENSIONS = 100  # browsers send about 20
RECORDS = 16  # real clients send one or two; all are parsed again for each packet


class BadHelloError(ValueError):
    """The data is not a well-formed ClientHello."""


class Hello(Struct, frozen=True, kw_only=True):
    """The names in the SNI extension: at most two are kept, as more than one is ambiguous.

    `encrypted` means that there is an ECH extension. Browsers always send one, often a dummy. This proxy terminates
    TLS and has no ECH key, so it can serve only the outer name, and decides on that.
    `protocols` is the ALPN extension, as it is.
    """

    names: tuple[str, ...] = ()
    protocols: bytes = b""
    encrypted: bool = False


class _Cursor(Struct):
    data: bytes
    at: int = 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise BadHelloError("the ClientHello ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def vector(self, size: int) -> "_Cursor":
        return _Cursor(self.take(self.number(size)))

    @property
    def rest(self) -> int:
        return len(self.data) - self.at


def looks_like_tls(data: bytes) -> bool:
    r"""Return whether the data can be the start of a TLS handshake record.

    >>> looks_like_tls(b"\x16\x03\x01"), looks_like_tls(b"SSH-2.0")
    (True, False)
    """
    return data[:2] in (b"\x16\x03", b"\x16") and data[2:3] in (b"", b"\x00", b"\x01", b"\x02", b"\x03")


def read_hello(data: bytes) -> Hello | None:
    """Return the ClientHello in `data`, None while it is incomplete. Raises `BadHelloError`."""
    message = _join_records(data)
    if len(message) < 4:
        return None
    if message[0] != CLIENT_HELLO:
        raise BadHelloError("the first TLS message is not a ClientHello")
    length = int.from_bytes(message[1:4])
    if len(message) < 4 + length:
        return None
    return _parse(_Cursor(message[4 : 4 + length]))


def _join_records(data: bytes) -> bytes:
    message, at, records = b"", 0, 0
    while len(data) - at >= 5:
        records += 1
        if records > RECORDS:
            raise BadHelloError(f"the ClientHello is in more than {RECORDS} records")
        kind, major, size = data[at], data[at + 1], int.from_bytes(data[at + 3 : at + 5])
        if kind != HANDSHAKE_RECORD or major != 3 or not 0 < size <= RECORD_BYTES:
            raise BadHelloError("not a TLS handshake record")
        message += data[at + 5 : at + 5 + size]
        at += 5 + size
        if len(message) >= 4 and len(message) >= 4 + int.from_bytes(message[1:4]):
            break
    return message


def _parse(body: _Cursor) -> Hello:
    body.take(2 + 32)  # version, random
    body.vector(1)  # session id
    body.vector(2)  # cipher suites
    body.vector(1)  # compression methods
    if not body.rest:
        return Hello()
    extensions = body.vector(2)
    if body.rest:
        raise BadHelloError("extra bytes after the extensions of the ClientHello")
    found: dict[int, _Cursor] = {}
    while extensions.rest:
        kind, content = extensions.number(2), extensions.vector(2)
        if len(found) == EXTENSIONS:
            raise BadHelloError(f"more than {EXTENSIONS} extensions in the ClientHello")
        if kind in found:
            raise BadHelloError("a duplicate extension in the ClientHello")
        found[kind] = content
    names = _names(found[SERVER_NAME]) if SERVER_NAME in found else ()
    protocols = found[PROTOCOLS].data if PROTOCOLS in found else b""
    return Hello(names=names, protocols=protocols, encrypted=not ENCRYPTED_HELLO.isdisjoint(found))


def _names(extension: _Cursor) -> tuple[str, ...]:
    listed = extension.vector(2)
    names: list[str] = []
    if extension.rest:
        raise BadHelloError("extra bytes after the server names")
    # Two names are enough to make it ambiguous.
    while listed.rest and len(names) < 2:
        kind, name = listed.number(1), listed.vector(2).data
        if kind != HOST_NAME or not name.isascii():
            raise BadHelloError("a server name that is not an ASCII host name")
        names.append(name.decode("ascii"))
    return tuple(names)
