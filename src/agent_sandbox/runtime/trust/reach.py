"""What a policy file lets the agent reach, and what of it another one did not."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_sandbox.policy.effective import Policy
from agent_sandbox.policy.ruleset import RuleSet
from agent_sandbox.policyfile import load_policy
from agent_sandbox.policyfile.resolved import RESOLVED
from agent_sandbox.policytools.difference import Change, difference
from agent_sandbox.problems import UserError
from agent_sandbox.render.paths import POLICY
from agent_sandbox.runtime.trust.standing import LOSSLESS, Standing

SERVICE = "service "
TOLD = {
    "deny": "{}, which was denied",
    "ceiling": "what {} held back",
    "slash": "paths with an encoded slash at {}",
    "inspect": "{}, without a look into TLS",
}
NOTHING = Policy.deny_all("nothing is trusted yet")


def policy_of(standing: Standing) -> Policy:
    """Return the policy that the project's files make by themselves; an invalid one lets nothing through."""
    with TemporaryDirectory(prefix="agent-sandbox-") as name:
        for path, text in standing.policy.items():
            file = Path(name, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode(errors=LOSSLESS))
        try:
            return load_policy(Path(name, POLICY))
        except UserError:
            return NOTHING


def widens(now: Policy, before: Policy) -> tuple[str, ...]:
    """Return what `now` lets through and `before` did not, one line each; nothing where it only narrows."""
    if now.digest == before.digest or now.refusal:
        return ()
    opens = difference(before, now).opens
    ours = tuple(_told(change) for change in opens if not _is_shipped(change))
    return (*ours, *_counted(opens), *_places(now, before), *_settings(now, before))


def _counted(opens: tuple[Change, ...]) -> Iterator[str]:
    """Yield what ships with the product by name and number; what the project itself says is spelled out."""
    found = Counter(change.origin.layer for change in opens if _is_shipped(change))
    yield from (f"{layer}: {count} rule{'s' if count > 1 else ''}" for layer, count in found.items())


def _is_shipped(change: Change) -> bool:
    layer = change.origin.layer
    return layer.startswith(SERVICE) and layer.removeprefix(SERVICE) not in RESOLVED


def _told(change: Change) -> str:
    return TOLD.get(change.kind, "{}").format(change.what)


def _places(now: Policy, before: Policy) -> Iterator[str]:
    for row in now.rules.host_services:
        if row not in before.rules.host_services:
            ports = ", ".join(map(str, sorted(row.ports)))
            yield f"the private place {row.asked} on port {ports}{f', which is {row.to}' if row.to else ''}"


def _settings(now: Policy, before: Policy) -> Iterator[str]:
    if not before.rules.replaced <= now.rules.replaced:
        yield "what `merge_mode: replace` took away"
    if now.settings.reload != before.settings.reload:
        yield f"policies to come, as `reload: {now.settings.reload}` says"
    if _others(now) != _others(before):
        yield "what other settings of the policy held back"


def _others(policy: Policy) -> RuleSet:
    # Whatever the language grows counts as wider until it is known to be none.
    return replace(policy.rules, rules=(), ceilings=(), replaced=frozenset(), host_services=(), settings={})
