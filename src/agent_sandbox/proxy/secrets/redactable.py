"""What would keep an echo of a secret from being found: no request asks for it, and no such answer is passed on."""

import re

from agent_sandbox.proxy.secrets.redaction import Echoes
from agent_sandbox.proxy.wire.header_fields import Fields

# With them a client could have an answer packed, written in other signs, or cut into pieces.
ASKING = frozenset(
    {
        b"a-im",
        b"accept-charset",
        b"accept-encoding",
        b"connect-accept-encoding",
        b"grpc-accept-encoding",
        b"if-range",
        b"range",
        b"request-range",
    }
)
UNPACKED = frozenset({b"", b"identity"})
# How an answer says that it is packed, and what says that it is not.
PACKING = {
    b"connect-content-encoding": UNPACKED,
    b"content-encoding": UNPACKED,
    b"grpc-encoding": UNPACKED,
    b"im": frozenset({b""}),
    b"transfer-encoding": UNPACKED | {b"chunked"},
}
CHARSET = re.compile(rb"charset\s*=\s*[\"']?([^\s\"';,]*)", re.IGNORECASE)
SIGNS = bytes(range(0x20, 0x7F))
QUOTING = re.compile("[\"'<]")
QUOTED = re.compile(r"""\s*:?\s*(?:\bbytearray\()?(?:\bb)?["'<].*""", re.DOTALL)


def folded(name: bytes) -> bytes:
    """Return what servers have in common that make a variable of each header: they take `x_a` for `x-a`."""
    return name.lower().replace(b"_", b"-")


def asks_to_hide(name: bytes, value: bytes) -> bool:
    """Tell whether a field of a request asks for an answer in which nothing could be found."""
    # gRPC says `te: trailers`, and is not served without.
    return folded(name) in ASKING or (folded(name) == b"te" and value.strip().lower() != b"trailers")


def why_unreadable(fields: Fields) -> str:
    """Return why nothing could be found in an answer with these fields; nothing where it could.

    >>> why_unreadable(((b"Content-Type", b"text/plain; charset=utf-16"),))
    'it is not written in ASCII'
    """
    for name, value in fields:
        if value.strip().lower() not in PACKING.get(folded(name), (value.strip().lower(),)):
            return "it is packed"
        if folded(name) == b"content-type" and not all(map(_is_ascii, CHARSET.findall(value))):
            return "it is not written in ASCII"
    return ""


def _is_ascii(charset: bytes) -> bool:
    """Tell whether ASCII is written as it is; not so what nobody here knows."""
    if charset.lower() in {b"", b"binary"}:
        return True
    try:
        return SIGNS.decode(charset.decode("ascii")) == SIGNS.decode("ascii")
    except (LookupError, ValueError):
        return False


def told(echoes: Echoes, reason: str) -> str:
    """Return what is wrong with an answer, in words that repeat nothing of it where it could be a secret.

    >>> told((b"secret",), "Invalid header line: b'secret'")
    'what is wrong with it could show the secret that was sent'
    """
    quotes = echoes and QUOTING.search(reason)
    return "what is wrong with it could show the secret that was sent" if quotes else reason


def unquoted(reason: str) -> str:
    """Return what is wrong with a connection up to what it quotes: who reads that may have asked for something else.

    >>> unquoted("Invalid headers: b'secret'")
    'Invalid headers'
    """
    return QUOTED.sub("", reason)
