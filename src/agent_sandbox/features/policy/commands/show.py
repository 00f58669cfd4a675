"""`agent-sandbox policy show [FILE]`."""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sandbox.cli.framework.options import Json, PolicyArgument, PolicyOption, ProjectPath
from agent_sandbox.cli.terminal.output import WIDEST, emit_json, emit_lines
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.features.policy.file import layer_lines, named_policy
from agent_sandbox.features.policy.layers import layers_here, load_here
from agent_sandbox.policy.engine.dump import dump_rule
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.engine.settings import Settings, dump_settings

if TYPE_CHECKING:
    from agent_sandbox.policyfile import LayerFile

# A rule of a restricting layer: everything that other layers allow must be within it.
WITHIN = "within"


def show(
    file: PolicyArgument = None, *, policy: PolicyOption = None, path: ProjectPath = None, json: Json = False
) -> None:
    """Print the effective policy: every rule with its layer and line, services included."""
    where = named_policy(file, policy, path=path)
    loaded, layers = load_here(where, os.environ), layers_here(os.environ, beside=where)
    if json:
        emit_json(as_json(where, loaded, layers))
    else:
        emit_lines(as_text(where, loaded, layers))


def as_json(file: Path, policy: Policy, layers: Sequence["LayerFile"]) -> dict[str, object]:
    """Return the effective policy as JSON."""
    return {
        "file": str(file),
        "digest": policy.digest,
        "refusal": policy.refusal,
        "settings": dump_settings(policy.settings),
        "layers": [{"name": layer.name, "file": str(layer.path)} for layer in layers],
        "rules": [dump_rule(rule) for rule in _ordered(policy.rules.rules)],
        "ceilings": [
            {"layer": restriction.origin.layer, "rules": [dump_rule(rule) for rule in _ordered(restriction.rules)]}
            for restriction in policy.rules.restrictions
        ],
        "host_services": [
            {"name": row.name, "asked": str(row.asked), "ports": sorted(row.ports), "to": row.to or str(row.asked)}
            for row in policy.rules.host_services
        ],
    }


def as_text(file: Path, policy: Policy, layers: Sequence["LayerFile"]) -> Iterator[str]:
    """Yield the effective policy as text: layer by layer, one rule per line."""
    yield f"{file}, digest {policy.digest[:12]}"
    yield from layer_lines(policy, layers)
    within = [(WITHIN, rule) for restriction in policy.rules.restrictions for rule in restriction.rules]
    rules = [(str(rule.effect), rule) for rule in policy.rules.rules]
    rows = [
        (rule.origin, (effect, str(rule), f":{rule.origin.line}"), _notes(policy, rule))
        for effect, rule in sorted((*rules, *within), key=lambda row: _place(row[1]))
    ]
    widths = [min(max((len(columns[number]) for _, columns, _ in rows), default=0), WIDEST) for number in range(3)]
    for heading, group in groupby(rows, key=lambda row: f"{row[0].layer}  {row[0].file}"):
        yield from ("", styled((heading, "title")))
        for _, (effect, *columns), notes in group:
            text = "  ".join((*map(str.ljust, columns, widths[1:]), notes)).rstrip()
            yield styled("  ", (f"{effect:<{widths[0]}}", effect), f"  {text}")
    yield from ("", styled("everything else is ", ("denied", "deny"), f": {policy.refusal}" if policy.refusal else ""))
    yield from _settings(policy)


def _place(rule: Rule) -> tuple[bool, str, int, str]:
    """Return the sort key of a rule: by file, with services last."""
    origin = rule.origin
    return origin.layer.startswith("service "), origin.file, origin.line, str(rule)


def _ordered(rules: Iterable[Rule]) -> list[Rule]:
    return sorted(rules, key=_place)


def _notes(policy: Policy, rule: Rule) -> str:
    asked = rule.conditions
    places = {policy.host_service(asked.host.name, port) for port in asked.ports or ()}
    leads = sorted(f"leads to {place.to}:{place.port}" for place in places if place)
    unread = ["passthrough"] if asked.inspect is False else []
    return "; ".join((*leads, *unread, *([rule.reason] if rule.reason else [])))


def _settings(policy: Policy) -> Iterator[str]:
    usual = dump_settings(Settings())
    upstream = policy.settings.upstream
    where = {"upstream": f" ({upstream.origin})"} if upstream else {}
    yield from (
        f"{name}: {getattr(policy.settings, name)}{where.get(name, '')}"
        for name, value in dump_settings(policy.settings).items()
        if value != usual[name]
    )
