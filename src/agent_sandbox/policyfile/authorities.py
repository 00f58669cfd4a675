"""The file that `settings.upstream.ca` names -> certificates of authorities, or what is wrong with it."""

import hashlib
import re
from pathlib import Path

from agent_sandbox.policy.match.upstream import Authorities
from agent_sandbox.policyfile.text.input_manifest import Read
from agent_sandbox.policyfile.text.reading import MIB, read_policy
from agent_sandbox.problems import Problem, UserError

HINT = "it holds certificates of authorities as PEM, and nothing else: `-----BEGIN CERTIFICATE-----`"
BEGUN = re.compile(r"-----BEGIN ([^\r\n]*?)-----")
# Lines of text before and between are usual, and no part of it.
WHOLE = re.compile(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")


def load_authorities(path: Path, *, read: Read = read_policy) -> Authorities:
    """Return the certificates in a file, or raise UserError with why they are not to be trusted."""
    content = read(path, limit=MIB)
    text = content.decode("ascii", "replace")
    begun, whole = BEGUN.findall(text), WHOLE.findall(text)
    if any("KEY" in kind for kind in begun):
        raise _unfit(path, "holds a private key", "take the key out, and draw a new one if anybody else could read it")
    if set(begun) != {"CERTIFICATE"}:
        raise _unfit(path, "is no file of certificates", HINT)
    pem = "\n".join(whole)
    if len(begun) != len(whole) or (all_of_authorities := _are_authorities(pem)) is None:
        raise _unfit(path, "holds a certificate that can't be read", HINT)
    if not all_of_authorities:
        hint = "the authority that signs for the others is wanted, not the certificate of one server"
        raise _unfit(path, "holds a certificate that is no authority's", hint)
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


def _unfit(path: Path, what: str, hint: str) -> UserError:
    return UserError([Problem(where=str(path), what=what, hint=hint)])
