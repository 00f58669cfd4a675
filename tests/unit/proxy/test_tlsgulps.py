from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from OpenSSL import SSL

from agent_sandbox.proxy.ca import load_authority, now_utc
from agent_sandbox.proxy.tlsgulps import ENCRYPTED, GulpingConnection

if TYPE_CHECKING:
    from pathlib import Path

BODY = bytes(range(256)) * 1024  # sixteen records


def carry(side: SSL.Connection, peer: SSL.Connection) -> None:
    """Hand on what one side has to send."""
    with suppress(SSL.WantReadError):
        while True:
            peer.bio_write(side.bio_read(65_536))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[GulpingConnection, SSL.Connection]:
    """Return our end and a plain one, with TLS established between them."""
    key = ec.generate_private_key(ec.SECP256R1())
    serving = SSL.Context(SSL.TLS_SERVER_METHOD)
    serving.use_certificate(load_authority(tmp_path, now=now_utc()).leaf("a.test", key, now=now_utc()))
    serving.use_privatekey(key)
    ours, theirs = GulpingConnection(SSL.Context(SSL.TLS_CLIENT_METHOD)), SSL.Connection(serving)
    ours.set_connect_state()
    theirs.set_accept_state()
    for side, peer in [(ours, theirs), (theirs, ours)] * 2:
        with suppress(SSL.WantReadError):
            side.do_handshake()
        carry(side, peer)
    return ours, theirs


def test_all_records_that_are_there_are_read_at_once(pair: tuple[GulpingConnection, SSL.Connection]) -> None:
    ours, theirs = pair
    theirs.sendall(BODY)
    carry(theirs, ours)
    assert ours.recv(1) == BODY
    with pytest.raises(SSL.WantReadError):
        ours.recv(1)


def test_a_part_of_a_record_is_not_there_yet(pair: tuple[GulpingConnection, SSL.Connection]) -> None:
    ours, theirs = pair
    theirs.sendall(BODY)
    encrypted = theirs.bio_read(1024 * 1024)
    ours.bio_write(encrypted[:40_000])
    begun = ours.recv(1)
    ours.bio_write(encrypted[40_000:])
    assert (len(begun) // 16_384, begun + ours.recv(1)) == (2, BODY)


def test_an_end_behind_the_last_record_is_told_when_it_is_asked_for(
    pair: tuple[GulpingConnection, SSL.Connection],
) -> None:
    ours, theirs = pair
    theirs.sendall(b"the last")
    theirs.shutdown()
    carry(theirs, ours)
    assert ours.recv(1) == b"the last"
    with pytest.raises(SSL.ZeroReturnError):
        ours.recv(1)


def test_what_came_before_a_forged_record_is_given_and_nothing_behind_it(
    pair: tuple[GulpingConnection, SSL.Connection],
) -> None:
    ours, theirs = pair
    theirs.sendall(b"whole")
    carry(theirs, ours)
    theirs.sendall(b"forged")
    record = bytearray(theirs.bio_read(65_536))
    record[-1] ^= 1
    ours.bio_write(bytes(record))
    theirs.sendall(b"behind")
    carry(theirs, ours)
    assert ours.recv(1) == b"whole"
    with pytest.raises(SSL.Error):
        ours.recv(1)


def test_all_that_is_encrypted_is_fetched_at_once(pair: tuple[GulpingConnection, SSL.Connection]) -> None:
    ours, theirs = pair
    ours.sendall(BODY)
    encrypted = ours.bio_read(1)
    assert len(BODY) < len(encrypted) < ENCRYPTED
    with pytest.raises(SSL.WantReadError):
        ours.bio_read(1)
    theirs.bio_write(encrypted)
    assert b"".join(theirs.recv(65_536) for _ in range(16)) == BODY
