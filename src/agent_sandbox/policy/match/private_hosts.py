"""Hosts that no entry of `domains` reaches, because what they lead to is private; and what does reach them."""

from agent_sandbox.policy.http.addresses import is_liftable, why_forbidden
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.policy.match.host_service import ENGINE

# Names that no public name server answers for: RFC 6761, 6762, 8375, and `internal`, which ICANN set aside.
NEVER_PUBLIC = frozenset(
    {"corp", "home", "home.arpa", "internal", "intranet", "lan", "local", "localdomain", "localhost", "private"}
)
NOTHING_LIFTS = "no policy can: nothing in the sandbox reaches it"


def why_private(host: str) -> str | None:
    """Say why a canonical host can only be private, None for one that may be public.

    >>> why_private("10.0.0.1"), why_private("db.internal"), why_private("example.com")
    ('is no public address (private)', 'can only lead to a private place', None)
    """
    if is_address(host):
        kind = why_forbidden(host)
        return kind and f"is no public address ({kind})"
    labels = host.split(".")
    ends = {".".join(labels[-count:]) for count in (1, 2)}
    return "can only lead to a private place" if len(labels) == 1 or ends & NEVER_PUBLIC else None


def how_to_name(host: str, port: int) -> str:
    """Return the line under `host_services` that reaches a private host, or that there is none."""
    written = f'"[{host}]:{port}"' if ":" in host else f"{host}:{port}"
    if _is_this_machine(host):
        return f"the engine's machine is named under `host_services`: `NAME: {{to: {ENGINE}:{port}}}`"
    if is_address(host) and not is_liftable(host):
        return NOTHING_LIFTS
    return f"name it under `host_services`: `NAME: {{to: {written}}}`"


def _is_this_machine(host: str) -> bool:
    if is_address(host):
        return (why_forbidden(host) or "").endswith("loopback")
    return host == "localhost" or host.endswith(".localhost")
