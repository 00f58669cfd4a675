"""Load the CA certificates in the file that `settings.upstream.ca` names."""

import hashlib
import re
from pathlib import Path

from agent_sandbox.policy.match.upstream import Authorities
from agent_sandbox.policyfile.text.input_manifest import Read
from agent_sandbox.policyfile.text.reading import MIB, read_policy
from agent_sandbox.problems import Problem, UserError

HINT = "it has to contain only CA certificates as PEM: `-----BEGIN CERTIFICATE-----`"
BEGUN = re.compile(r"-----BEGIN ([^\r\n]*?)-----")
# Text before and between certificates is common, and ignored.
WHOLE = re.compile(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")


def load_authorities(path: Path, *, read: Read = read_policy) -> Authorities:
    """Return the CA certificates in a file, or raise UserError with why they are rejected."""
    content = read(path, limit=MIB)
    text = content.decode("ascii", "replace")
    begun, whole = BEGUN.findall(text), WHOLE.findall(text)
    if any("KEY" in kind for kind in begun):
        raise _invalid(path, "contains a private key", "remove the key, and replace it if anyone else could read it")
    if set(begun) != {"CERTIFICATE"}:
        raise _invalid(path, "not a file of certificates", HINT)
    pem = "\n".join(whole)
    if len(begun) != len(whole) or (all_of_authorities := _are_authorities(pem)) is None:
        raise _invalid(path, "contains an invalid certificate", HINT)
    if not all_of_authorities:
        hint = "use the certificate of the CA that signs, not that of one server"
        raise _invalid(path, "contains a certificate that is not of a CA", hint)
    return Authorities(name=f"{path.name} (sha256 {hashlib.sha256(content).hexdigest()})", pem=pem)


def _are_authorities(pem: str) -> bool | None:
    import ssl  # noqa: PLC0415 - 30 ms to import, and few policies name a file of certificates

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=pem)
    except ssl.SSLError:
        return None
    found = context.cert_store_stats()
    return found["x509"] == found["x509_ca"]


def _invalid(path: Path, what: str, hint: str) -> UserError:
    return UserError([Problem(where=str(path), what=what, hint=hint)])
