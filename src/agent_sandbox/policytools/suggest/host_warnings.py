"""Warnings about a host that a user should read before allowing it."""

from collections.abc import Iterator

import idna

from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach
from agent_sandbox.policytools.lint.checks.leaks import shared_store, upload_host
from agent_sandbox.policytools.lint.lists import tenants_below
from agent_sandbox.policytools.lint.subject import Subject
from agent_sandbox.policytools.suggest.generalising import is_shaped

LONGEST_LABEL = 40  # of a name that somebody chose


def careful(scheme: str, host: str, layer: Layer) -> Iterator[str]:
    """Yield warnings about a host and the rules that `layer` has for it."""
    if scheme == "http":
        yield "not encrypted: anyone on the network path can read and change it"
    if is_address(host):
        yield "an address: no name says who owns it"
    if "xn--" in host:
        yield f"the host is displayed as {_unicode(host)}: check each letter"
    if tenant := _tenant(host):
        yield tenant
    if not is_address(host) and any(_is_random(label) for label in host.split(".")):
        yield "a part of the name looks random: it can carry data out"
    subject = Subject(layer=layer, comments={}, policy=compile_policy([layer], {}))
    for finding in (*upload_host(subject), *shared_store(subject)):
        yield f"{finding.what}: {finding.why}"


def _tenant(host: str) -> str:
    """Return a warning if anyone can register a name like this one."""
    labels = host.split(".")
    for start in range(1, len(labels)):
        below = HostPattern(reach=Reach.BELOW, name=".".join(labels[start:]))
        found = tenants_below(below)
        if found and found[1].count(".") <= below.name.count("."):
            return f"anyone can get a name below {found[1]}: check that this one is not a stranger's"
    return ""


def _is_random(label: str) -> bool:
    return len(label) > LONGEST_LABEL or is_shaped(label)


def _unicode(host: str) -> str:
    # Label by label: IDNA rejects `_`, which occurs in host names.
    return ".".join(idna.ulabel(label) if label.startswith("xn--") else label for label in host.split("."))
