import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.policy.match.upstream import Authorities
from agent_sandbox.policyfile.authorities import HINT, load_authorities
from agent_sandbox.problems import UserError
from certificates import make_authority

LEAF_HINT = "use the certificate of the CA that signs, not that of one server"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a CA certificate, and a server certificate with its key."""
    return make_authority(tmp_path_factory.mktemp("made"), ["a.test"]).parent


def test_loads_the_certificates_and_names_them_by_file_name_and_hash(made: Path, tmp_path: Path) -> None:
    pem = (made / "ca.crt").read_text()
    written = f"The authority of us all, since 2026:\n{pem}and again\n{pem}"
    (tmp_path / "corp.pem").write_text(written)
    digest = hashlib.sha256(written.encode()).hexdigest()
    got = load_authorities(tmp_path / "corp.pem")
    assert got == Authorities(name=f"corp.pem (sha256 {digest})", pem="")
    assert got.pem == f"{pem}{pem}".strip()


@pytest.mark.parametrize(
    ("change", "what", "hint"),
    [
        (lambda _, __: "", "not a file of certificates", HINT),
        (lambda _, __: "corp", "not a file of certificates", HINT),
        (lambda ca, _: ca + "-----BEGIN X509 CRL-----\n-----END X509 CRL-----", "not a file of certificates", HINT),
        (lambda ca, _: ca.replace("MII", "MIJ"), "contains an invalid certificate", HINT),
        (lambda ca, _: ca[:200], "contains an invalid certificate", HINT),
        (lambda _, leaf: leaf.partition("-----BEGIN P")[0], "contains a certificate that is not of a CA", LEAF_HINT),
        (
            lambda ca, leaf: ca + leaf.partition("-----BEGIN P")[0],
            "contains a certificate that is not of a CA",
            LEAF_HINT,
        ),
        (lambda _, leaf: leaf, "contains a private key", "remove the key, and replace it"),
    ],
)
def test_rejects_invalid_certificates_certificates_of_servers_and_private_keys(
    made: Path, tmp_path: Path, change: Callable[[str, str], str], what: str, hint: str
) -> None:
    (tmp_path / "corp.pem").write_text(change((made / "ca.crt").read_text(), (made / "leaf.pem").read_text()))
    with pytest.raises(UserError) as caught:
        load_authorities(tmp_path / "corp.pem")
    assert str(caught.value).startswith(f"{tmp_path}/corp.pem: {what}")
    assert hint in str(caught.value)


def test_rejects_links_pipes_and_missing_files(made: Path, tmp_path: Path) -> None:
    (tmp_path / "link.pem").symlink_to(made / "ca.crt")
    os.mkfifo(tmp_path / "pipe.pem")
    for name, what in (("link", "symbolic link"), ("pipe", "not a regular file"), ("none", "no such file")):
        with pytest.raises(UserError, match=what):
            load_authorities(tmp_path / f"{name}.pem")
