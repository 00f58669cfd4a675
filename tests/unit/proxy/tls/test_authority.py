import stat
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.verification import PolicyBuilder, Store

from agent_sandbox.proxy.tls.authority import Authority, load_authority

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_only_the_owner_can_read_the_key_and_everyone_can_read_the_certificate(tmp_path: Path) -> None:
    authority = load_authority(tmp_path, now=NOW)
    secret, public = tmp_path / "private" / "ca.pem", tmp_path / "ca" / "ca.crt"
    assert (stat.S_IMODE(secret.stat().st_mode), stat.S_IMODE(public.stat().st_mode)) == (0o600, 0o644)
    assert public.read_bytes() == authority.pem()
    assert b"PRIVATE" not in public.read_bytes()
    assert isinstance(authority.key, ec.EllipticCurvePrivateKey)


def test_loads_the_same_authority_again_and_restores_the_certificate_file(tmp_path: Path) -> None:
    first = load_authority(tmp_path, now=NOW)
    (tmp_path / "ca" / "ca.crt").write_bytes(b"overwritten")
    assert load_authority(tmp_path, now=NOW).pem() == first.pem()
    assert (tmp_path / "ca" / "ca.crt").read_bytes() == first.pem()
    assert load_authority(tmp_path, now=NOW).pem() == first.pem()


def test_replaces_an_authority_that_will_soon_expire(tmp_path: Path) -> None:
    first = load_authority(tmp_path, now=NOW)
    later = load_authority(tmp_path, now=NOW + timedelta(days=3_640))
    assert later.pem() != first.pem()
    assert (tmp_path / "ca" / "ca.crt").read_bytes() == later.pem()


@pytest.mark.parametrize("days", [-365, 365])
def test_keeps_an_authority_that_was_made_when_the_clock_was_wrong_by_a_year(tmp_path: Path, days: int) -> None:
    made = load_authority(tmp_path, now=NOW + timedelta(days=days))
    assert load_authority(tmp_path, now=NOW).pem() == made.pem()
    assert_certifies(made, "api.example.com")


def test_replaces_an_authority_that_was_made_when_the_clock_was_far_ahead(tmp_path: Path) -> None:
    ahead = load_authority(tmp_path, now=NOW + timedelta(days=3_651))
    assert load_authority(tmp_path, now=NOW).pem() != ahead.pem()


@pytest.mark.parametrize("kept", [0, 100, 300])
def test_replaces_a_damaged_authority(tmp_path: Path, kept: int) -> None:
    first = load_authority(tmp_path, now=NOW)
    secret = tmp_path / "private" / "ca.pem"
    secret.write_bytes(secret.read_bytes()[:kept])
    later = load_authority(tmp_path, now=NOW)
    assert later.pem() != first.pem()
    assert load_authority(tmp_path, now=NOW).pem() == later.pem()


def test_replaces_a_key_of_another_kind(tmp_path: Path) -> None:
    first = load_authority(tmp_path, now=NOW)
    key = rsa.generate_private_key(65_537, 2_048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "private" / "ca.pem").write_bytes(pem + first.pem())
    assert load_authority(tmp_path, now=NOW).pem() != first.pem()


@pytest.mark.parametrize("host", ["api.example.com", "203.0.113.7", "a" * 60 + ".example.com"])
def test_a_leaf_certificate_is_valid_for_its_host_under_web_pki_rules(tmp_path: Path, host: str) -> None:
    assert_certifies(load_authority(tmp_path, now=NOW), host)


def assert_certifies(authority: Authority, host: str) -> None:
    leaf = authority.leaf(host, ec.generate_private_key(ec.SECP256R1()), now=NOW)
    subject = x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
    verifier = PolicyBuilder().store(Store([authority.certificate])).time(NOW).build_server_verifier(subject)
    assert verifier.verify(leaf, [])[-1] == authority.certificate
    assert list(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value) == [subject]
