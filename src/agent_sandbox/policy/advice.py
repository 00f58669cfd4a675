"""How a person can allow exactly what was denied, in one sentence."""

from agent_sandbox.policy.decision import Cause, Decision
from agent_sandbox.policy.method import NAMEABLE
from agent_sandbox.policy.privateplace import how_to_name, why_private
from agent_sandbox.policy.request import USUAL_PORTS, Request

FILE = ".devcontainer/policy.yaml"
APPLY = "then: docker compose restart proxy"
# What no further entry would change.
BEYOND_AN_ENTRY = {
    Cause.RULE: "a deny always wins: take out or narrow the entry at {}",
    Cause.CEILING: "whoever keeps {} has to allow it there too",
    Cause.POLICY: f"see `agent-sandbox policy check`, mend {FILE}",
}
ENCODED = str.maketrans({"*": "%2A", '"': "%22", "`": "%60"})


def advise(asked: Request | str, decision: Decision, *, port: int = 443) -> str:
    """Return the sentence; empty for what is allowed. For a CONNECT, `asked` is the host, and its port counts."""
    if decision.allowed:
        return ""
    if decision.cause in BEYOND_AN_ENTRY:
        return f"{BEYOND_AN_ENTRY[decision.cause].format(decision.rule)}, {APPLY}"
    if isinstance(asked, Request) and asked.method not in NAMEABLE:
        return f"no rule can name the method {asked.method}"
    if decision.cause is Cause.REQUEST and isinstance(asked, Request):
        return f"add `{entry_for_request(asked)}` under `allow` in {FILE}, {APPLY}"
    return _for_host(asked.host, asked.port) if isinstance(asked, Request) else _for_host(asked, port)


def _for_host(host: str, port: int) -> str:
    if why_private(host):
        return f"{host} {why_private(host)}: {how_to_name(host, port)}"
    return f"add `{entry_for_host(host, port)}` under `domains` in {FILE}, {APPLY}"


def entry_for_host(host: str, port: int) -> str:
    """Return the line of `domains` that allows the host."""
    written = f'"[{host}]"' if ":" in host else host
    return f"- {written}" if port in USUAL_PORTS else f"- {{host: {written}, ports: [{port}]}}"


def entry_for_request(asked: Request) -> str:
    """Return the line of `allow` that takes this request, with any query.

    What would be a wildcard there, or end the quotes around it, is written encoded: rules read both alike.
    """
    address, _, _ = asked.url.partition("?")
    return f'- "{asked.method} {address.translate(ENCODED)}"'
