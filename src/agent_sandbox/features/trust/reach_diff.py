"""List what a policy lets the agent reach, and what another policy did not."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule_set import RuleSet
from agent_sandbox.policy.engine.settings import Settings
from agent_sandbox.policy.match.upstream import Upstream
from agent_sandbox.policyfile import load_policy
from agent_sandbox.policyfile.named_services import named_in
from agent_sandbox.policyfile.resolved import FOLDER, RESOLVED, TOOLS
from agent_sandbox.policyfile.text.document import parse_document
from agent_sandbox.policyfile.text.reading import MAX_BYTES
from agent_sandbox.policytools.compare.difference import (
    Change,
    by_budgets,
    by_restrictions,
    difference,
    unasked,
    undenied,
)
from agent_sandbox.problems import UserError
from agent_sandbox.project.render.paths import POLICY
from agent_sandbox.project.trust_snapshot import LOSSLESS, MARK, Standing

SERVICE = "service "
TOLD = {
    "slash": "paths with an encoded slash at {}",
    "inspect": "{}, TLS not inspected",
}
# It drops allows of other layers with what they say beside.
REPLACES = "`merge_mode: replace` on {}: drops rules of other layers, and their `inspect: true`"
# These values of a setting, or its absence, never widen; other layers' values are the user's own choice.
NO_WIDER = {
    "inspect": (None, True),
    "reload": (None, "restart"),
    "ask_timeout": (None, Settings().ask_timeout),
    "http1": (None, "auto", "lane"),
}
# These restrict what other layers allow, so they also count for a project that allows nothing itself.
ASKED_APART = frozenset({"deny", "ask", "ceiling", "upstream", "budget"})
LONGEST_OPTIONS = 200  # characters of a service's options; the policy's text follows anyway
NOTHING = Policy.deny_all("nothing is trusted yet")
BROKEN = "anything, because the policy cannot be read:\n"


def policy_of(standing: Standing) -> Policy:
    """Return the policy of the project's files alone, NOTHING without any, or BROKEN and why."""
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
    """Return one line for each thing that a project newly allows."""
    return (*widens(policy_of(now), policy_of(before), chosen=_chosen(now)), *_to_resolve(now, before))


def _to_resolve(now: Standing, before: Standing) -> Iterator[str]:
    """Yield a line for each newly named service whose registries the next start takes from this machine."""
    named, had = (named_in(one.policy.get(POLICY, "").removeprefix(MARK)) for one in (now, before))
    for name in sorted((named - had).intersection(RESOLVED)):
        if f"{Path(POLICY).parent}/{FOLDER}/{name}.yaml" not in now.policy:
            yield f"{SERVICE}{name}: GET from the registries that {TOOLS[name]} on this machine is configured for"


def _chosen(standing: Standing) -> Mapping[str, str]:
    """Return the options of each service in the policy, as written."""
    text = standing.policy.get(POLICY, "")
    try:
        value = parse_document(text, file=POLICY).value if len(text) <= MAX_BYTES else None
    except UserError:
        return {}
    named = value.get("services") if isinstance(value, dict) else None
    options = (dict(entry) for entry in named or () if isinstance(entry, dict)) if isinstance(named, list) else ()
    return {str(entry.pop("name", "")): _listed(entry) for entry in options}


def _listed(options: Mapping[str, object]) -> str:
    text = ", ".join(f"{name}: {json.dumps(value)}" for name, value in options.items())
    return text if len(text) <= LONGEST_OPTIONS else f"{text[:LONGEST_OPTIONS]}..."


def widens(now: Policy, before: Policy, *, chosen: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return one line for each thing that `now` allows and `before` did not; nothing if it only narrows.

    Because other layers also allow things, removed denies, removed restrictions and settings count whatever the
    project itself allows.
    """
    if now.refusal.startswith(BROKEN):
        return tuple(now.refusal.splitlines())
    opens = tuple(change for change in difference(before, now).opens if change.kind not in ASKED_APART)
    ours = tuple(_told(change) for change in opens if not _is_shipped(change))
    # Long lists are cut, so the few lines that widen most come first.
    return (
        *_settings(now, before),
        *(f"what {change.what} restricted" for change in by_restrictions(before, now)),
        *(f"more than the {change.what}" for change in by_budgets(before, now)),
        *_places(now, before),
        *_counted(opens, chosen or {}),
        *(f"{deny}, denied before" for deny in undenied(before, now)),
        *(f"{rule}, about which a person was asked before" for rule in unasked(before, now)),
        *ours,
    )


def _counted(opens: tuple[Change, ...], chosen: Mapping[str, str]) -> Iterator[str]:
    """Yield shipped services by name and number of rules, and the project's own rules in full."""
    found = Counter(change.origin.layer for change in opens if _is_shipped(change))
    for layer, count in found.items():
        options = chosen.get(layer.removeprefix(SERVICE))
        yield f"{layer}{f' with {options}' if options else ''}: {count} rule{'s' if count > 1 else ''}"


def _is_shipped(change: Change) -> bool:
    layer = change.origin.layer
    return layer.startswith(SERVICE) and layer.removeprefix(SERVICE) not in TOOLS


def _told(change: Change) -> str:
    return TOLD.get(change.kind, "{}").format(change.what)


def _places(now: Policy, before: Policy) -> Iterator[str]:
    for row in now.rules.host_services:
        if row not in before.rules.host_services:
            ports = ", ".join(map(str, sorted(row.ports)))
            yield f"the host service {row.asked} on port {ports}{f', which leads to {row.to}' if row.to else ''}"


def _settings(now: Policy, before: Policy) -> Iterator[str]:
    if not before.rules.replaced <= now.rules.replaced:
        yield "what `merge_mode: replace` removed"
    yield from map(REPLACES.format, sorted(map(str, now.rules.replaced - before.rules.replaced)))
    said, had = now.rules.settings, before.rules.settings
    for name in sorted({*said, *had} - {"ask_uploads"}):  # `ask` has it in words
        if said.get(name) != had.get(name) and said.get(name) not in NO_WIDER.get(name, ()):
            yield f"the setting `{name}`: {_said(said.get(name))}; {_before(had.get(name))}"
    if _others(now) != _others(before):
        yield "what other settings of the policy restricted"


def _said(value: object) -> str:
    if isinstance(value, Upstream):
        return str(value)
    return "no longer set here" if value is None else json.dumps(value)


def _before(value: object) -> str:
    return "not set here before" if value is None else f"before: {_said(value)}"


def _others(policy: Policy) -> RuleSet:
    # An unknown kind of change counts as widening.
    return replace(
        policy.rules, rules=(), restrictions=(), replaced=frozenset(), host_services=(), settings={}, budgets=()
    )
