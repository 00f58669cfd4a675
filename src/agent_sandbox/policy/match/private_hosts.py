"""Hosts that `domains` cannot allow because they are private, and the hint how to reach them instead."""

from agent_sandbox.policy.http.addresses import is_liftable, why_forbidden
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.policy.match.host_service import ENGINE
from agent_sandbox.policy.text import MACHINE

# Names that are never in public DNS: RFC 6761, 6762, 8375, and `internal`, which ICANN reserved.
NEVER_PUBLIC = frozenset(
    {"corp", "home", "home.arpa", "internal", "intranet", "lan", "local", "localdomain", "localhost", "private"}
)
NOTHING_LIFTS = "no policy can allow it"


def why_private(host: str) -> str | None:
    """Return why a canonical host can only be private, or None for one that may be public.

    >>> why_private("10.0.0.1"), why_private("db.internal"), why_private("example.com")
    ('is not a public address (private)', 'can only be a private host', None)
    """
    if is_address(host):
        kind = why_forbidden(host)
        return kind and f"is not a public address ({kind})"
    return "can only be a private host" if is_private_name(host) else None


def is_private_name(name: str) -> bool:
    """Return whether a name is never in public DNS: it has one label, or a private top-level domain.

    >>> is_private_name("nas"), is_private_name("db.internal"), is_private_name("example.com")
    (True, True, False)
    """
    labels = name.split(".")
    return len(labels) == 1 or not NEVER_PUBLIC.isdisjoint((labels[-1], ".".join(labels[-2:])))


def how_to_name(host: str, port: int) -> str:
    """Return the hint how to reach a private host under `host_services`, or that no policy can."""
    written = f'"[{host}]:{port}"' if ":" in host else f"{host}:{port}"
    if _is_this_machine(host):
        return f"add {MACHINE} under `host_services`: `NAME: {{to: {ENGINE}:{port}}}`"
    if is_address(host) and not is_liftable(host):
        return NOTHING_LIFTS
    return f"add it under `host_services`: `NAME: {{to: {written}}}`"


def _is_this_machine(host: str) -> bool:
    if is_address(host):
        return (why_forbidden(host) or "").endswith("loopback")
    return host == "localhost" or host.endswith(".localhost")
