"""The proxy's own CA: an EC key that never leaves `private/`, and certificates for single hosts."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from agent_sandbox.atomic_file import write_file

NAME = "agent-sandbox proxy"
CA_DAYS = 3_650
LEAF_DAYS = 90
SKEW = timedelta(days=2)
# Valid as far back as ahead, so that the CA is still accepted if the clock was or is wrong by years.
CA_SKEW = timedelta(days=CA_DAYS)
RENEW_DAYS = 30


class Authority(Struct, frozen=True, kw_only=True):
    """The CA's certificate and key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def leaf(self, host: str, key: ec.EllipticCurvePrivateKey, *, now: datetime) -> x509.Certificate:
        """Return a signed certificate for `host`, a name or an IP address, and `key`."""
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)] if len(host) < 64 else [])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        builder = (
            _builder(name, self.certificate.subject, key, since=now - SKEW, until=now + timedelta(days=LEAF_DAYS))
            .add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=not name.rdns)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage, critical=False)
            .add_extension(_key_usage(authority=False), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        return builder.sign(self.key, hashes.SHA256())

    def pem(self) -> bytes:
        """Return the certificate as PEM, without the key."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def load_authority(state: Path, *, now: datetime) -> Authority:
    """Load the CA from `state`, or create one, and write its certificate to `ca/ca.crt`."""
    secret = state / "private" / "ca.pem"
    authority = _read(secret, now=now) or _create(secret, now=now)
    public = state / "ca" / "ca.crt"
    public.parent.mkdir(parents=True, exist_ok=True)
    if not public.is_file() or public.read_bytes() != authority.pem():
        write_file(public, authority.pem(), mode=0o644)
    return authority


def _read(path: Path, *, now: datetime) -> Authority | None:
    if not path.is_file():
        return None
    raw = path.read_bytes()
    try:
        key = serialization.load_pem_private_key(raw, password=None)
        certificate = x509.load_pem_x509_certificate(raw)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # damaged file, or a key with a password
        return None
    # A CA created while the clock was far ahead is not valid yet once the clock is right.
    began = certificate.not_valid_before_utc <= now
    fresh = began and certificate.not_valid_after_utc - now > timedelta(days=RENEW_DAYS)
    return (
        Authority(certificate=certificate, key=key) if fresh and isinstance(key, ec.EllipticCurvePrivateKey) else None
    )


def _create(path: Path, *, now: datetime) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, NAME), x509.NameAttribute(NameOID.ORGANIZATION_NAME, NAME)]
    )
    certificate = (
        _builder(name, name, key, since=now - CA_SKEW, until=now + timedelta(days=CA_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    authority = Authority(certificate=certificate, key=key)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_file(path, pem + authority.pem(), mode=0o600)
    return authority


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, since: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def now_utc() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)
