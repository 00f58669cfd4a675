"""Sign git commits with an SSH key (ADR 60): read the commit strictly, and make the signature that git expects.

A signature is for the namespace `git` and for a commit, whatever a client sends: no server accepts it as a sign-in, and
no tool as the signature of a file.
"""

import hashlib
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

from agent_sandbox.proxy.secrets.store import NotGivenError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# The value of a secret that signs: the e-mail address that may commit, and the key file of OpenSSH on one line.
FORM = "EMAIL KEY, as `--from ssh-key:FILE` makes it"
VALUE = re.compile(r"(?P<email>[^ <>@]+@[^ <>]+) (?P<key>[A-Za-z0-9+/]+={0,2})")
BEGIN, END = b"-----BEGIN OPENSSH PRIVATE KEY-----\n", b"\n-----END OPENSSH PRIVATE KEY-----\n"
NAMESPACE, HASH, ALGORITHM = b"git", b"sha512", b"ssh-ed25519"
MAGIC, VERSION = b"SSHSIG", b"\0\0\0\x01"
LINE = 70

# A commit as git signs it: without the field that has the signature. Tags, and the certificates of `git push --signed`,
# begin in another way. `mergetag` is the tag that was merged, whose lines are indented.
HASHED = rb"(?:[0-9a-f]{40}|[0-9a-f]{64})"
WHO = rb"[^<>\n\0]*<(?P<%s>[^<>\n\0]*)> (?P<%s_at>\d{1,12}) [+-]\d{4}\n"
COMMIT = re.compile(
    rb"tree " + HASHED + rb"\n"
    rb"(?:parent " + HASHED + rb"\n)*+"
    rb"author "
    + WHO % (b"author", b"author")
    + rb"committer "
    + WHO % (b"committer", b"committer")
    # Both are optional.
    + rb"(?:encoding [A-Za-z0-9._:-]{1,40}\n)?+"
    rb"(?:mergetag object " + HASHED + rb"\n(?: [^\n\0]*\n)++)*+"
    rb"\n(?P<message>[^\0]*)"
)


class NotSignedError(NotGivenError):
    """Why something is not signed."""


class Commit(Struct, frozen=True, kw_only=True):
    """What the proxy reads of a commit: the committer's address and time, and the first line of the message."""

    email: str
    time: int
    subject: str


def parse_commit(data: bytes) -> Commit:
    """Return what a commit object says, or raise NotSignedError for anything else."""
    found = COMMIT.fullmatch(data)
    if found is None:
        hint = "tags, files and signed pushes cannot be signed in the sandbox"
        raise NotSignedError("this is not a git commit", hint)
    subject = found["message"].partition(b"\n")[0].decode("utf-8", "backslashreplace")
    return Commit(email=found["committer"].decode("latin-1"), time=int(found["committer_at"]), subject=subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A key, and the address of the committer whose commits it signs."""

    email: str
    private: "Ed25519PrivateKey" = field(repr=False)

    @property
    def public(self) -> str:
        """The public key, as in a file of allowed signers."""
        return f"{ALGORITHM.decode()} {b64encode(self._public).decode('ascii')}"

    @property
    def _public(self) -> bytes:
        return _string(ALGORITHM) + _string(self.private.public_key().public_bytes_raw())

    def sign(self, commit: bytes) -> bytes:
        """Return the signature of a commit, as git stores it."""
        signed = MAGIC + b"".join(map(_string, (NAMESPACE, b"", HASH, hashlib.sha512(commit).digest())))
        signature = _string(ALGORITHM) + _string(self.private.sign(signed))
        whole = MAGIC + VERSION + b"".join(map(_string, (self._public, NAMESPACE, b"", HASH, signature)))
        text = b64encode(whole)
        lines = (text[at : at + LINE] for at in range(0, len(text), LINE))
        return b"\n".join((b"-----BEGIN SSH SIGNATURE-----", *lines, b"-----END SSH SIGNATURE-----", b""))


def parse_key(value: str) -> SigningKey | None:
    """Return the key in the value of a secret, None if it has another form."""
    # Few sandboxes sign commits.
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key  # noqa: PLC0415

    found = VALUE.fullmatch(value)
    if found is None:
        return None
    try:
        b64decode(found["key"], validate=True)
        key = load_ssh_private_key(BEGIN + found["key"].encode("ascii") + END, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return SigningKey(email=found["email"], private=key) if isinstance(key, Ed25519PrivateKey) else None


def _string(data: bytes) -> bytes:
    """Return a string as SSH encodes it."""
    return len(data).to_bytes(4) + data
