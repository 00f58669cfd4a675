"""Services as text and as JSON: the list, one service, and the difference between two versions."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agent_sandbox.cli.terminal.output import WIDEST, diff_lines
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.features.policy.file import POLICY_FILE
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.engine.dump import dump_rule
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policyfile.package_managers import aliases
from agent_sandbox.policyfile.parse.aliases import also_called
from agent_sandbox.policyfile.resolved import COMMAND
from agent_sandbox.policytools.services import Changed, Difference, choices, entries, rules_of

if TYPE_CHECKING:
    from agent_sandbox.detect import Offer
    from agent_sandbox.runtime.policies.resolving import Resolved

SIGNS = {"+": "allow", "-": "deny"}
HEAD = ("SERVICE", "HOSTS", "REVIEWED", "NAME")


def list_as_text(services: Mapping[str, Layer]) -> Iterator[str]:
    """Yield one line per service, and for unresolved ones the command that resolves them."""
    rows = [HEAD, *(_row(name, layer) for name, layer in services.items())]
    rows += [
        (name, "-", "-", f"not resolved yet: {COMMAND} {name} ({', '.join(also)})")
        for name, also in aliases().items()
        if name not in services
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for name, hosts, date, title in rows:
        line = f"{name:<{widths[0]}}  {hosts:>{widths[1]}}  {date:<{widths[2]}}  {title}"
        yield styled((line, "title")) if name == HEAD[0] else line


def _row(name: str, layer: Layer) -> tuple[str, str, str, str]:
    also = also_called(layer)
    title = f"{layer.spec.title} ({', '.join(also)})" if also else layer.spec.title
    return name, str(len(layer.spec.domains)), layer.spec.date, title


def list_as_json(services: Mapping[str, Layer]) -> list[dict[str, Any]]:
    """Return the list as JSON."""
    return [
        {
            "name": name,
            "title": layer.spec.title,
            "also": list(also_called(layer)),
            "date": layer.spec.date,
            "hosts": len(layer.spec.domains),
        }
        for name, layer in services.items()
    ]


def show_as_text(name: str, layer: Layer) -> Iterator[str]:
    """Yield a service as text: its purpose, and for each host the risk and the rules with their reasons."""
    yield styled((name, "title"), f": {layer.spec.title} ({layer.spec.date})")
    yield layer.spec.reason
    yield from _entry_lines(layer)


def _entry_lines(layer: Layer) -> Iterator[str]:
    width = min(max((len(str(rule)) for rule in rules_of(layer)), default=0), WIDEST)
    asked = choices(layer)
    for entry in entries(layer):
        yield ""
        yield styled((str(entry.spec.host), "title"))
        yield f"  risk   {entry.spec.risk}"
        yield f"  probe  {entry.spec.probe}"
        for rule in entry.rules:
            when = asked.get(rule.origin.line)
            yield f"  {rule!s:<{width}}  {rule.reason}{f' ({when})' if when else ''}".rstrip()


def show_as_json(name: str, layer: Layer) -> dict[str, Any]:
    """Return the same for a program."""
    asked = choices(layer)
    return {
        "name": name,
        "title": layer.spec.title,
        "date": layer.spec.date,
        "reason": layer.spec.reason,
        "entries": [
            {
                "host": str(entry.spec.host),
                "risk": entry.spec.risk,
                "probe": entry.spec.probe,
                "rules": [{**dump_rule(rule), "when": asked.get(rule.origin.line)} for rule in entry.rules],
            }
            for entry in entries(layer)
        ],
    }


def diff_as_text(found: Difference, old: Mapping[str, Layer], new: Mapping[str, Layer]) -> list[str]:
    """Return what became reachable (`+`) and what no longer is (`-`), by service."""
    return [
        *(line for name in found.added for line in _whole("+", name, new[name])),
        *(line for name in found.removed for line in _whole("-", name, old[name])),
        *(line for change in found.changed for line in _changed_lines(change)),
    ] or ["no difference in what the services allow"]


def _whole(sign: str, name: str, layer: Layer) -> Iterator[str]:
    yield styled((sign, SIGNS[sign]), f" {name}: {layer.spec.title} ({layer.spec.date})")
    yield from _signed(sign, rules_of(layer))


def _changed_lines(change: Changed) -> Iterator[str]:
    was, now = change.dates
    yield f"  {change.name} ({now}{f', was {was}' if was != now else ''})"
    yield from _signed("+", change.opened)
    yield from _signed("-", change.closed)


def _signed(sign: str, rules: Iterable[Rule]) -> Iterator[str]:
    for rule in rules:
        reason = f"  ({rule.reason})" if rule.reason else ""
        yield styled((sign, SIGNS[sign]), f"   {rule.effect} {rule}{reason}")


def diff_as_json(found: Difference) -> dict[str, Any]:
    """Return the same for a program."""
    return {
        "added": list(found.added),
        "removed": list(found.removed),
        "changed": [
            {
                "name": change.name,
                "dates": list(change.dates),
                "opened": [dump_rule(rule) for rule in change.opened],
                "closed": [dump_rule(rule) for rule in change.closed],
            }
            for change in found.changed
        ],
    }


def resolved_as_text(plan: "Resolved", *, written: bool) -> list[str]:
    """Return the written files and their hosts, or the diff if nothing was written."""
    if not written:
        return diff_lines("".join(change.diff() for change in plan.changes))
    files = [f"{change.verdict:<9}  {POLICY_FILE.parent / change.path}" for change in plan.changes]
    hosts = [
        f"{name:<9}  {offer.host}: named by {', '.join(offer.files)}"
        for name, offers in plan.offers.items()
        for offer in offers
    ]
    return [*files, *hosts]


def offer_as_text(name: str, offer: "Offer") -> str:
    """Return a host that only the project's files name, with its warnings."""
    from agent_sandbox.runtime.policies.resolving import warnings  # noqa: PLC0415 - `list` and `show` need none of it

    line = f"{name:<9}  {offer.host}: named only by {', '.join(offer.files)}, which the agent can write"
    return "\n".join([line, *(f"  careful: {warning}" for warning in warnings(offer))])


def resolved_as_json(plan: "Resolved", *, written: bool) -> dict[str, Any]:
    """Return the same for a program."""
    return {
        "written": written,
        "files": [
            {"path": str(POLICY_FILE.parent / change.path), "verdict": str(change.verdict), "diff": change.diff()}
            for change in plan.changes
        ],
        "hosts": {
            name: [{"host": offer.host, "named_by": list(offer.files)} for offer in offers]
            for name, offers in plan.offers.items()
        },
        "left_out": {
            name: [{"host": offer.host, "named_by": list(offer.files)} for offer in offers]
            for name, offers in plan.left.items()
            if offers
        },
    }
