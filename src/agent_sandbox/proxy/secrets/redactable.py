"""Keep responses redactable: drop request headers that would hide an echo of a secret, detect responses that do."""

import re

from agent_sandbox.proxy.secrets.redaction import Echoes
from agent_sandbox.proxy.secrets.unpacking import UNPACKERS
from agent_sandbox.proxy.wire.message import Fields

# With these headers, a client could request a response that is compressed, in another charset, or partial.
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
# Headers that declare a compressed response, and their values that do not.
PACKING = {
    b"connect-content-encoding": UNPACKED,
    b"content-encoding": UNPACKED,
    b"grpc-encoding": UNPACKED,
    b"im": frozenset({b""}),
    b"transfer-encoding": UNPACKED | {b"chunked"},
}
# What a response says about its compressed body.
ABOUT_PACKED = frozenset({b"content-encoding", b"content-length", b"content-digest", b"content-md5", b"digest"})
CHARSET = re.compile(rb"charset\s*=\s*[\"']?([^\s\"';,]*)", re.IGNORECASE)
SIGNS = bytes(range(0x20, 0x7F))
QUOTING = re.compile("[\"'<]")
QUOTED = re.compile(r"""\s*:?\s*(?:\bbytearray\()?(?:\bb)?["'<].*""", re.DOTALL)


def folded(name: bytes) -> bytes:
    """Return `name` in lower case with `-` for `_`: some servers do not distinguish the two."""
    return name.lower().replace(b"_", b"-")


def asks_to_hide(name: bytes, value: bytes) -> bool:
    """Return whether a request header asks for a response in which an echo could not be found."""
    # gRPC requires `te: trailers`.
    return folded(name) in ASKING or (folded(name) == b"te" and value.strip().lower() != b"trailers")


def coding_of(fields: Fields) -> bytes:
    """Return how a response is compressed if the proxy can undo it, else an empty text."""
    codings = [value.strip().lower() for name, value in fields if folded(name) == b"content-encoding"]
    return codings[0] if len(codings) == 1 and codings[0] in UNPACKERS else b""


def unpacked(fields: Fields) -> Fields:
    """Return the headers of a response that is decompressed: without those about the compressed body."""
    return tuple(one for one in fields if folded(one[0]) not in ABOUT_PACKED)


def why_unreadable(fields: Fields) -> str:
    """Return why an echo could not be found in a response with these headers, "" if it could.

    >>> why_unreadable(((b"Content-Type", b"text/plain; charset=utf-16"),))
    'its charset is not ASCII-compatible'
    """
    for name, value in unpacked(fields) if coding_of(fields) else fields:
        if value.strip().lower() not in PACKING.get(folded(name), (value.strip().lower(),)):
            return "it is compressed"
        if folded(name) == b"content-type" and not all(map(_is_ascii, CHARSET.findall(value))):
            return "its charset is not ASCII-compatible"
    return ""


def _is_ascii(charset: bytes) -> bool:
    """Return whether the charset encodes ASCII as itself; False for an unknown charset."""
    if charset.lower() in {b"", b"binary"}:
        return True
    try:
        return SIGNS.decode(charset.decode("ascii")) == SIGNS.decode("ascii")
    except (LookupError, ValueError):
        return False


def safe_reason(echoes: Echoes, reason: str) -> str:
    """Return `reason`, or a fixed text if it quotes a response that may contain an injected secret.

    >>> safe_reason((b"secret",), "Invalid header line: b'secret'")
    'the details are hidden, because they could contain the injected secret'
    """
    quotes = echoes and QUOTING.search(reason)
    return "the details are hidden, because they could contain the injected secret" if quotes else reason


def unquoted(reason: str) -> str:
    """Return `reason` without the part that it quotes, which may belong to another request on the connection.

    >>> unquoted("Invalid headers: b'secret'")
    'Invalid headers'
    """
    return QUOTED.sub("", reason)
