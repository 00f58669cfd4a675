"""Read a key file of OpenSSH, for a secret that signs commits. The proxy reads the key itself."""

import struct
from base64 import b64decode
from collections.abc import Iterator

BEGIN, END = "-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----"
MAGIC = b"openssh-key-v1\0"
KIND = b"ssh-ed25519"
MAKE_ONE = "create one: ssh-keygen -t ed25519 -N '' -f FILE"


class NotAKeyError(ValueError):
    """Why a file is not a usable key; `hint` says how to fix it."""

    def __init__(self, why: str, hint: str = MAKE_ONE) -> None:
        super().__init__(why)
        self.hint = hint


def key_on_one_line(data: bytes) -> str:
    """Return the key in the content of a key file, in base64, or raise NotAKeyError."""
    lines = data.decode("latin-1").strip().splitlines()
    if len(lines) < len((BEGIN, "", END)) or (lines[0], lines[-1]) != (BEGIN, END):
        raise NotAKeyError("not a private key of OpenSSH")
    text = "".join(lines[1:-1])
    try:
        key = b64decode(text, validate=True)
        cipher, kind = _cipher_and_kind(key)
    except (ValueError, struct.error) as error:
        raise NotAKeyError("the key is damaged") from error
    if cipher != b"none":
        hint = f"the proxy cannot ask for it; for the sandbox, {MAKE_ONE}"
        raise NotAKeyError("the key has a passphrase", hint)
    if kind != KIND:
        raise NotAKeyError(f"the key has the type {kind.decode('latin-1')!r}, not ed25519")
    return text


def _cipher_and_kind(key: bytes) -> tuple[bytes, bytes]:
    """Return the names of the cipher and of the algorithm, which come before the private part."""
    if not key.startswith(MAGIC):
        raise ValueError("another format")
    cipher, _, _, number, public = _strings(key)
    if number != b"\0\0\0\x01":
        raise ValueError("more than one key")
    size = struct.unpack_from(">I", public)[0]
    return cipher, public[4 : 4 + size]


def _strings(key: bytes) -> Iterator[bytes]:
    """Yield cipher, key derivation and its options, the number of keys, and the first public key."""
    at = len(MAGIC)
    for field in range(5):
        if field == 3:  # the only one without a length
            yield key[at : at + 4]
            at += 4
            continue
        size = struct.unpack_from(">I", key, at)[0]
        if at + 4 + size > len(key):
            raise ValueError("truncated")
        yield key[at + 4 : at + 4 + size]
        at += 4 + size
