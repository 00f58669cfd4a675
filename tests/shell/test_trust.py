"""trust.sh: the certificates of the image and of the proxy, in the places that programs read."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bash_harness import Shell

# Debian 12's openssl cannot write Java's store: test_image.py checks the real store.
STUBS = """
system_certificates() { echo "$HOME/system.crt"; }
write_java_store() { echo java; }
"""


def certificate(path: Path, name: str, *, days: int = 2) -> str:
    """Make a self-signed certificate that became valid nine days ago and expires in `days` days."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=9))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return path.read_text()


@pytest.fixture
def trust(shell: Shell) -> Shell:
    """A shell with a CA, a store from an earlier start, and a system certificate without a final newline."""
    (shell.home / "certs").mkdir()
    (shell.home / "certs" / "ca-certificates.crt").write_text("stale")
    (shell.home / "system.crt").write_text(certificate(shell.home / "system.crt", "system").rstrip("\n"))
    certificate(shell.home / "ca.crt", "agent-sandbox")
    return shell.within(AGENT_SANDBOX_TRUST=str(shell.home / "certs"), AGENT_SANDBOX_CA=str(shell.home / "ca.crt"))


def test_the_bundle_has_the_system_certificates_and_the_proxys_ca(trust: Shell) -> None:
    trust("messages trust", STUBS + "write_trust_store")
    bundle = trust.home / "certs" / "ca-certificates.crt"
    wanted = (trust.home / "system.crt").read_text() + "\n" + (trust.home / "ca.crt").read_text()
    assert wanted == bundle.read_text()
    assert bundle.stat().st_mode & 0o777 == 0o644


def test_openssl_finds_the_ca_by_its_hash(trust: Shell) -> None:
    trust("messages trust", STUBS + "write_trust_store; write_trust_store")
    done = trust.run("openssl", "verify", "-no-CAfile", "-CApath", trust.home / "certs", trust.home / "ca.crt")
    assert done.stdout.endswith(": OK\n")


def test_leaves_no_temporary_files(trust: Shell) -> None:
    trust("messages trust", STUBS + "write_trust_store")
    assert [path.name for path in (trust.home / "certs").glob("*.new")] == []


@pytest.mark.parametrize("content", [None, "", "no certificate", "expired"])
def test_an_unusable_ca_stops_the_start(trust: Shell, content: str | None) -> None:
    ca = trust.home / "ca.crt"
    if content is None:
        ca.unlink()
    elif content == "expired":
        certificate(ca, "agent-sandbox", days=-1)
    else:
        ca.write_text(content)
    done = trust("messages trust", STUBS + "write_trust_store", check=False)
    assert done.returncode == 78
    assert done.stderr == (
        f"agent-sandbox: the proxy's certificate {ca} is missing, unreadable or expired; "
        "see: agent-sandbox logs proxy\n"
    )
    assert (trust.home / "certs" / "ca-certificates.crt").read_text() == "stale"


def test_a_ca_that_changed_since_the_start_is_not_trusted(trust: Shell) -> None:
    trust("messages trust", STUBS + "write_trust_store; is_trusted")
    certificate(trust.home / "ca.crt", "agent-sandbox")
    assert trust("messages trust", "is_trusted", check=False).returncode == 1
    (trust.home / "ca.crt").unlink()
    assert trust("messages trust", "is_trusted", check=False).returncode == 1
