"""What a policy file lets the agent reach, and what of it another one did not."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule_set import RuleSet
from agent_sandbox.policy.match.upstream import Upstream
from agent_sandbox.policyfile import load_policy
from agent_sandbox.policyfile.resolved import RESOLVED
from agent_sandbox.policyfile.text.document import parse_document
from agent_sandbox.policyfile.text.reading import MAX_BYTES
from agent_sandbox.policytools.compare.difference import Change, by_ceilings, difference, undenied
from agent_sandbox.problems import UserError
from agent_sandbox.render.paths import POLICY
from agent_sandbox.runtime.project.trust_snapshot import LOSSLESS, Standing

SERVICE = "service "
TOLD = {
    "slash": "paths with an encoded slash at {}",
    "inspect": "{}, without a look into TLS",
}
# It drops allows of other layers with what they say beside.
REPLACES = "`merge_mode: replace` on {}: drops rules of other layers, and their `inspect: true`"
# Said so, or not at all, a setting holds back no less: what other layers say of it is the user's own word.
NO_WIDER = {"inspect": (None, True), "reload": (None, "restart")}
# They hold back what other layers allow, and so count for a project that allows nothing by itself, too.
ASKED_APART = frozenset({"deny", "ceiling", "upstream"})
MOST_TOLD = 200  # characters of a service's options: the text of the policy follows
NOTHING = Policy.deny_all("nothing is trusted yet")
BROKEN = "whatever a policy that can't be read comes to mean:\n"


def policy_of(standing: Standing) -> Policy:
    """Return the policy that the project's files make by themselves, NOTHING without any, or BROKEN and why."""
    if POLICY not in standing.policy:
        return NOTHING
    with TemporaryDirectory(prefix="agent-sandbox-") as name:
        for path, text in standing.policy.items():
            file = Path(name, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode(errors=LOSSLESS))
        try:
            return load_policy(Path(name, POLICY))
        except UserError as error:
            return Policy.deny_all(BROKEN + str(error).replace(f"{name}/", ""))


def reaches(now: Standing, before: Standing) -> tuple[str, ...]:
    """Return what a project lets through now and did not before, one line each."""
    return widens(policy_of(now), policy_of(before), chosen=_chosen(now))


def _chosen(standing: Standing) -> Mapping[str, str]:
    """Return what the policy says of each service that it names with options, as it says it."""
    text = standing.policy.get(POLICY, "")
    try:
        value = parse_document(text, file=POLICY).value if len(text) <= MAX_BYTES else None
    except UserError:
        return {}
    named = value.get("services") if isinstance(value, dict) else None
    options = (dict(entry) for entry in named or () if isinstance(entry, dict)) if isinstance(named, list) else ()
    return {str(entry.pop("name", "")): _listed(entry) for entry in options}


def _listed(options: Mapping[str, object]) -> str:
    told = ", ".join(f"{name}: {json.dumps(value)}" for name, value in options.items())
    return told if len(told) <= MOST_TOLD else f"{told[:MOST_TOLD]}..."


def widens(now: Policy, before: Policy, *, chosen: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return what `now` lets through and `before` did not, one line each; nothing where it only narrows.

    Other layers stand beside a project's: what it no longer denies or holds back, or says of settings, counts whatever
    it allows.
    """
    if now.refusal.startswith(BROKEN):
        return tuple(now.refusal.splitlines())
    opens = tuple(change for change in difference(before, now).opens if change.kind not in ASKED_APART)
    ours = tuple(_told(change) for change in opens if not _is_shipped(change))
    # Of many lines the first are shown: what opens much, and is little in number, is not to be found among the rest.
    return (
        *_settings(now, before),
        *(f"what {change.what} held back" for change in by_ceilings(before, now)),
        *_places(now, before),
        *_counted(opens, chosen or {}),
        *(f"{deny}, which was denied" for deny in undenied(before, now)),
        *ours,
    )


def _counted(opens: tuple[Change, ...], chosen: Mapping[str, str]) -> Iterator[str]:
    """Yield what ships with the product by name and number; what the project itself says is spelled out."""
    found = Counter(change.origin.layer for change in opens if _is_shipped(change))
    for layer, count in found.items():
        options = chosen.get(layer.removeprefix(SERVICE))
        yield f"{layer}{f' with {options}' if options else ''}: {count} rule{'s' if count > 1 else ''}"


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
        yield "what `merge_mode: replace` held back"
    yield from map(REPLACES.format, sorted(map(str, now.rules.replaced - before.rules.replaced)))
    said, had = now.rules.settings, before.rules.settings
    for name in sorted({*said, *had}):
        if said.get(name) != had.get(name) and said.get(name) not in NO_WIDER.get(name, ()):
            yield f"the setting `{name}`: {_said(said.get(name))}; {_before(had.get(name))}"
    if _others(now) != _others(before):
        yield "what other settings of the policy held back"


def _said(value: object) -> str:
    if isinstance(value, Upstream):
        return str(value)
    return "no longer set here" if value is None else json.dumps(value)


def _before(value: object) -> str:
    return "not set here before" if value is None else f"before: {_said(value)}"


def _others(policy: Policy) -> RuleSet:
    # Whatever the language grows counts as wider until it is known to be none.
    return replace(policy.rules, rules=(), ceilings=(), replaced=frozenset(), host_services=(), settings={})
