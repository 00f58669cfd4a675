"""The signatures of commits: what counts as a commit, and that OpenSSH accepts what is signed."""

import subprocess
from base64 import b64encode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.proxy.secrets.commit_signature import Commit, NotSignedError, parse_commit, parse_key
from table_tests import each

HASH = b"4b825dc642cb6eb9a060e54bf8d69288fbee4904"
COMMIT = b"tree %s\nauthor A <a@example.com> 1 +0000\ncommitter Me <me@example.com> 2 -0130\n\na\n" % HASH


def changed(old: bytes, new: bytes) -> bytes:
    """Return a commit with one text replaced."""
    return COMMIT.replace(old, new, 1)


NOT_COMMITS = {
    "nothing": b"",
    "a file": b"#!/bin/sh\nexit\n",
    "an SSH sign-in": b"\0\0\0\x20" + b"s" * 32 + b"\x32\0\0\0\4root\0\0\0\x0essh-connection\0\0\0\x09publickey",
    "what ssh-keygen signs": b"SSHSIG\0\0\0\4file\0\0\0\0\0\0\0\6sha512\0\0\0\x40" + b"h" * 64,
    "a tag": b"object %s\ntype commit\ntag v1\ntagger Me <me@example.com> 1 +0000\n\nv1\n" % HASH,
    "a signed push": b"certificate version 0.1\npusher Me <me@example.com> 1 +0000\n\n",
    "a tree": b"100644 a\0" + b"h" * 20,
    "no tree": changed(b"tree", b"blob"),
    "a short hash": changed(HASH, HASH[:39]),
    "a hash in capital letters": changed(HASH, HASH.upper()),
    "two trees": b"tree %s\n" % HASH + COMMIT,
    "a parent below the author": changed(b"committer", b"parent %s\ncommitter" % HASH),
    "two committers": changed(b"\n\n", b"\ncommitter Me <me@example.com> 1 +0000\n\n"),
    "two authors": changed(b"committer", b"author Me <me@example.com> 1 +0000\ncommitter"),
    "two addresses": changed(b"<me@example.com>", b"<you@example.com> <me@example.com>"),
    "a broken address": changed(b"<me@example.com>", b"<me@example.com"),
    "no time": changed(b"2 -0130\n\n", b"\n\n"),
    "a signature already": changed(b"\n\n", b"\ngpgsig -----BEGIN SSH SIGNATURE-----\n x\n\n"),
    "an unknown field": changed(b"\n\n", b"\nx-tag v1\n\n"),
    "a field that goes on": changed(b"\n\n", b"\n committer\n\n"),
    "a NUL in the message": changed(b"a\n", b"a\0b\n"),
    "line ends of Windows": COMMIT.replace(b"\n", b"\r\n"),
    "the object's own header": b"commit 180\0" + COMMIT,
    "a space before it": b" " + COMMIT,
    "no message": COMMIT.partition(b"\n\n")[0] + b"\n",
    "a multipart form": b"--b\r\nContent-Disposition: form-data\r\n\r\n" + COMMIT + b"\r\n--b--\r\n",
    "two in a row": b"\n" + COMMIT + COMMIT,
}


@each("name", NOT_COMMITS)
def test_anything_but_a_commit_is_refused(name: str) -> None:
    with pytest.raises(NotSignedError, match=r"^this is not a git commit$"):
        parse_commit(NOT_COMMITS[name])


MERGED = b"mergetag object %s\n type commit\n tag v1\n \n v1\n" % HASH


@each(
    "data",
    [
        COMMIT,
        changed(b"author", b"parent %s\nparent %s\nauthor" % (HASH, HASH)),
        changed(HASH, HASH + b"0" * 24),
        changed(b"\n\n", b"\nencoding ISO-8859-1\n\n"),
        changed(b"\n\n", b"\n" + MERGED + MERGED + b"\n"),
        changed(b"author A", b'author \xff, "x" '),
        changed(b"<a@example.com>", b"<>"),
    ],
)
def test_parses_commits_as_git_writes_them(data: bytes) -> None:
    assert parse_commit(data) == Commit(email="me@example.com", time=2, subject="a")


@each(
    ("message", "subject"),
    [(b"", ""), (b"\n", ""), (b"one\ntwo", "one"), ("h\u00e9\n".encode(), "h\u00e9"), (b"\xe9\n", "\\xe9")],
)
def test_a_message_can_be_anything(message: bytes, subject: str) -> None:
    assert parse_commit(COMMIT.removesuffix(b"a\n") + message).subject == subject


@given(st.binary(max_size=200))
def test_refuses_random_bytes(data: bytes) -> None:
    with pytest.raises(NotSignedError):
        parse_commit(data)


def value(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey, password: bytes = b"") -> str:
    """Return a key as the value of a secret."""
    protection = BestAvailableEncryption(password) if password else NoEncryption()
    lines = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, protection).decode().splitlines()
    return f"me@example.com {''.join(lines[1:-1])}"


def test_openssh_accepts_the_signature_only_in_the_git_namespace(tmp_path: Path) -> None:
    key = parse_key(value(Ed25519PrivateKey.generate()))
    assert key
    (tmp_path / "signers").write_text(f"me@example.com {key.public}\n")
    (tmp_path / "a.sig").write_bytes(key.sign(COMMIT))
    words = ("ssh-keygen", "-Y", "verify", "-f", tmp_path / "signers", "-I", "me@example.com", "-s", tmp_path / "a.sig")
    for namespace, data, is_good in (("git", COMMIT, True), ("git", COMMIT + b"x", False), ("file", COMMIT, False)):
        done = subprocess.run((*words, "-n", namespace), input=data, capture_output=True, check=False, timeout=60)
        assert (done.returncode == 0) is is_good, done


def test_repr_of_a_key_does_not_contain_it() -> None:
    found = parse_key(value(Ed25519PrivateKey.generate()))
    assert repr(found) == "SigningKey(email='me@example.com')"


GOOD = value(Ed25519PrivateKey.generate())


@each(
    "text",
    [
        "",
        "me@example.com",
        GOOD.partition(" ")[2],
        GOOD.replace("@", " "),
        f"{GOOD} more",
        GOOD[:-8],
        GOOD.rstrip("=") + "A",
        f"me@example.com {b64encode(b'openssh-key-v1' + bytes(60)).decode()}",
        value(ec.generate_private_key(ec.SECP256R1())),
    ],
)
def test_refuses_other_values_as_keys(text: str) -> None:
    assert parse_key(text) is None
