"""The heads of HTTP messages as values, the same for every protocol version and whatever reads them from the wire."""

from msgspec import Struct

Fields = tuple[tuple[bytes, bytes], ...]


# The fields that say where a body ends, and the bytes for which some programs read `-` in a name.
FRAMING = frozenset({b"content-length", b"transfer-encoding"})
LIKE_HYPHEN = bytes(ord(chr(byte).lower()) if bytes([byte]).isalnum() else ord("-") for byte in range(256))


class RequestHead(Struct, frozen=True):
    """The head of a request.

    `authority` is the `:authority` of HTTP/2, else empty. `host` and `port` are where the request goes: those of a full
    URL in the request line, or those of the tunnel that it came through.
    """

    method: bytes
    target: bytes
    version: bytes
    fields: Fields
    authority: bytes = b""
    host: str = ""
    port: int = 0
    scheme: bytes = b""

    @property
    def is_http2(self) -> bool:
        """Whether the request came over HTTP/2."""
        return self.version == b"HTTP/2.0"


class ResponseHead(Struct, frozen=True):
    """The head of a response."""

    status: int
    reason: bytes
    fields: Fields


def value_of(fields: Fields, name: bytes, default: str = "") -> str:
    """Return the value of the field `name`, given in lower case; several values are joined, as HTTP permits.

    >>> value_of(((b"Accept", b"text/html"), (b"accept", b"*/*")), b"accept")
    'text/html, */*'
    """
    values = [value for field, value in fields if field.lower() == name]
    return b", ".join(values).decode("utf-8", "surrogateescape") if values else default


def names_of(fields: Fields) -> str:
    """Return the names of the fields in lower case, each once, in their order.

    >>> names_of(((b"Host", b"a.test"), (b"Cookie", b"a=1"), (b"cookie", b"b=2")))
    'host, cookie'
    """
    return b", ".join(dict.fromkeys([name.lower() for name, _ in fields])).decode("latin-1")


def misspelt_framing(fields: Fields) -> str:
    """Describe the first field whose name some programs read as a framing header; return "" if there is none.

    >>> misspelt_framing(((b"Transfer_Encoding", b"chunked"),))
    'a header named Transfer_Encoding, which some programs read as Transfer-Encoding'
    """
    for name, _ in fields:
        if name.translate(LIKE_HYPHEN) in FRAMING and name.lower() not in FRAMING:
            meant = name.translate(LIKE_HYPHEN).title()
            return f"a header named {name.decode()}, which some programs read as {meant.decode()}"
    return ""


def has_field(fields: Fields, name: bytes) -> bool:
    """Return whether there is a field `name`, given in lower case."""
    return name in [field.lower() for field, _ in fields]


def closes(version: str, fields: Fields) -> bool:
    """Return whether the connection ends with this message."""
    said = value_of(fields, b"connection")
    tokens = [token.strip() for token in said.lower().split(",")] if said else []
    return "close" in tokens or (version != "HTTP/1.1" and "keep-alive" not in tokens)
