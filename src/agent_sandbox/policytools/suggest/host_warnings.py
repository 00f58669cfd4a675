"""What a person should know of a host before saying yes to it."""

from collections.abc import Iterator

import idna

from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.policytools.lint.leaks import shared_store, upload_host
from agent_sandbox.policytools.lint.subject import Subject


def careful(scheme: str, host: str, layer: Layer) -> Iterator[str]:
    """Yield what is to be known of a host, and of what the rules of a layer open of it."""
    if scheme == "http":
        yield "it is not encrypted: anybody on the way can read and change it"
    if is_address(host):
        yield "it is an address: no name says whose it is"
    if "xn--" in host:
        yield f"the host reads {_unicode(host)}: look at each letter"
    subject = Subject(layer=layer, comments={}, policy=compile_policy([layer], {}))
    for finding in (*upload_host(subject), *shared_store(subject)):
        yield f"{finding.what}: {finding.why}"


def _unicode(host: str) -> str:
    # Label by label: IDNA knows no `_`, which stands in names of services.
    return ".".join(idna.ulabel(label) if label.startswith("xn--") else label for label in host.split("."))
