"""Read a TLS ClientHello, which says whom the client wants to talk to.

The hello may be split over records and packets. Only what the decision needs is taken out; the bytes go on unchanged to
OpenSSL, whose own reading of the name is compared once more after the handshake (`tls.established`).
"""

from dataclasses import dataclass, field

HANDSHAKE_RECORD = 0x16
CLIENT_HELLO = 1
SERVER_NAME = 0x0000
# ECH, its drafts, and ESNI before them.
ENCRYPTED_HELLO = frozenset({0xFFCE, 0xFF02, *range(0xFE08, 0xFE0E)})
HOST_NAME = 0
RECORD_BYTES = 2**14 + 256
EXTENSIONS = 100  # browsers send about 20
RECORDS = 16  # real ones take one or two; all are read again for each byte that comes


class BadHelloError(ValueError):
    """What came is no ClientHello that can be understood without doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The names in the SNI extension (none, one, or doubtfully many).

    `encrypted` says that an ECH extension is there. Browsers send a meaningless one at all times; as this proxy ends
    TLS itself and holds no ECH key, the outer name is the only one that can be served, and the one that is decided.
    """

    names: tuple[str, ...] = ()
    encrypted: bool = False


@dataclass(slots=True)
class _Cursor:
    data: bytes
    at: int = field(default=0)

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
    r"""Tell whether the first bytes can be a TLS record that holds a handshake.

    >>> looks_like_tls(b"\x16\x03\x01"), looks_like_tls(b"SSH-2.0")
    (True, False)
    """
    return data[:2] in (b"\x16\x03", b"\x16") and data[2:3] in (b"", b"\x00", b"\x01", b"\x02", b"\x03")


def read_hello(data: bytes) -> Hello | None:
    """Return the hello in `data`, None while it is incomplete. Raises `BadHelloError`."""
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
        raise BadHelloError("bytes behind the extensions of the ClientHello")
    found: dict[int, _Cursor] = {}
    while extensions.rest:
        kind, content = extensions.number(2), extensions.vector(2)
        if len(found) == EXTENSIONS:
            raise BadHelloError(f"more than {EXTENSIONS} extensions in the ClientHello")
        if kind in found:
            raise BadHelloError("an extension twice in the ClientHello")
        found[kind] = content
    names = _names(found[SERVER_NAME]) if SERVER_NAME in found else ()
    return Hello(names=names, encrypted=not ENCRYPTED_HELLO.isdisjoint(found))


def _names(extension: _Cursor) -> tuple[str, ...]:
    listed = extension.vector(2)
    names: list[str] = []
    if extension.rest:
        raise BadHelloError("bytes behind the server names")
    # A second name is one too many, whatever follows.
    while listed.rest and len(names) < 2:
        kind, name = listed.number(1), listed.vector(2).data
        if kind != HOST_NAME or not name.isascii():
            raise BadHelloError("a server name that is no ASCII host name")
        names.append(name.decode("ascii"))
    return tuple(names)
