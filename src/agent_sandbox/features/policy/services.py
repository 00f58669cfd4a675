"""List, show, compare and resolve services, as text and as JSON."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_sandbox.cli.terminal.output import WIDEST, diff_lines, emit_json, emit_lines, say
from agent_sandbox.cli.terminal.question import agrees
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.cli.terminal.tty import at_terminal
from agent_sandbox.detect import Offer
from agent_sandbox.features.policy.file import POLICY_FILE, find_policy
from agent_sandbox.features.policy.registries import this_machine
from agent_sandbox.features.policy.resolve_services import write_resolved
from agent_sandbox.features.policy.resolving import Resolved, Take, resolve, warnings
from agent_sandbox.features.policy.service_versions import services_of
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.engine.dump import dump_rule
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policyfile.catalogue import Catalogue, services_beside, shipped_services
from agent_sandbox.policyfile.package_managers import aliases
from agent_sandbox.policyfile.parse.aliases import also_called, service_called
from agent_sandbox.policyfile.parse.checking import nearest_service
from agent_sandbox.policyfile.resolved import COMMAND, MIRRORED, RESOLVED, advice_for, resolved_for
from agent_sandbox.policytools.services import Changed, Difference, choices, difference, entries, rules_of
from agent_sandbox.problems import Problem, UserError

SIGNS = {"+": "allow", "-": "deny"}
FOLDERS = "OLD is a folder of services, or a version in git"
HEAD = ("SERVICE", "HOSTS", "REVIEWED", "NAME")


def _known(path: Path | None) -> Catalogue:
    """Return the services that the project's policy may name, or outside a project the shipped ones."""
    try:
        return services_beside(find_policy(path, cwd=Path.cwd()))
    except UserError:
        return shipped_services()


def list_services(path: Path | None, *, json: bool) -> None:
    """Print the services that the project's policy may name."""
    found = _known(path)
    known = {name: layer for name, layer in found.items() if name not in RESOLVED or name in found.found}
    _emit(list_as_json(known) if json else list_as_text(known), json=json)


def show_service(wanted: str, path: Path | None, *, others: Sequence[str], json: bool) -> None:
    """Print one service; `others` are words that the user may have meant."""
    known = _known(path)
    if wanted not in known and (called := service_called(wanted, {*known, *RESOLVED})) and called != wanted:
        say(f"{wanted} is called `{called}` in policies:")
        wanted = called
    if wanted in RESOLVED and wanted not in known.found:
        raise UserError([Problem(where=wanted, what="has not been resolved yet", hint=advice_for(wanted))])
    if wanted not in known:
        hint = nearest_service(wanted, [*known, *others])
        raise UserError([Problem(where=wanted, what="not a known service", hint=hint)])
    _emit(show_as_json(wanted, known[wanted]) if json else show_as_text(wanted, known[wanted]), json=json)


def compare_versions(words: Sequence[str], usage: str, *, json: bool) -> None:
    """Compare two versions: all services, or the one that `words` names (and that is not a folder)."""
    shipped = shipped_services()
    named = [word for word in words if word in shipped and not Path(word).is_dir()] or list(words[2:])
    versions = [word for word in words if word not in named]
    if not versions or len(named) > 1:
        wrong = f"`{'`, `'.join(named)}`: diff compares two versions, of one service or of all"
        raise UserError([Problem(where="", what=wrong, hint=f"{usage}; {FOLDERS}")])
    was, now = services_of(versions[0]), services_of(versions[1]) if versions[1:] else dict(shipped)
    for name in named:
        if name not in {*was, *now}:
            raise UserError([Problem(where=name, what="not a service in either version", hint=usage)])
        was, now = ({name: of[name]} if name in of else {} for of in (was, now))
    found = difference(was, now)
    _emit(diff_as_json(found) if json else diff_as_text(found, was, now), json=json)


def _emit(answer: Any, *, json: bool) -> None:  # noqa: ANN401 - lines, or what becomes JSON
    if json:
        emit_json(answer)
    else:
        emit_lines(answer)


def resolve_service(  # noqa: PLR0913 - each is an option
    name: str | None,
    path: Path | None,
    source: Path | None,
    *,
    from_project: bool,
    force: bool,
    dry_run: bool,
    json: bool,
) -> None:
    """Resolve one service, or all, and print what was written and what was left out."""
    policy = find_policy(path, cwd=Path.cwd())
    take = _taker(from_project=from_project, ask=not (dry_run or json))
    machine = this_machine(os.environ, project=policy.absolute().parent.parent)
    name = name and (resolved_for(service_called(name, {*RESOLVED, *MIRRORED}) or name) or name)
    plan = resolve(name, policy, machine, take=take, source=source, force=force)
    writes = not dry_run and not plan.kept
    if writes:
        # `--from-project` shows no hosts, so it cannot make them trusted: the next start asks about them.
        write_resolved(policy, [plan], trust=not from_project)
    _emit(resolved_as_json(plan, written=writes) if json else resolved_as_text(plan, written=writes), json=json)
    for problem in plan.nothing:
        say(("note:", "title"), f" {problem}")
    _say_left_out(plan)
    hint = "--force writes what the diff shows"
    if plan.kept:
        raise UserError(
            Problem(where=str(POLICY_FILE.parent / kept.path), what=f"{kept.why}; nothing was written", hint=hint)
            for kept in plan.kept
        )
    if not plan.offers:
        what = "only the project's files name registries; nothing was written"
        raise UserError([Problem(where=", ".join(plan.left), what=what, hint="check them, then add --from-project")])
    if dry_run:
        say("dry run: nothing was written")
    else:
        commands = "; ".join(f"agent-sandbox policy allow {name}" for name in plan.offers)
        say(f"to use {'it' if len(plan.offers) == 1 else 'them'}: {commands}")


def _taker(*, from_project: bool, ask: bool) -> Take:
    """Return the function that decides which hosts of the project's files to include; no answer means no."""
    if from_project or not ask or not at_terminal():
        return lambda _name, _offer: from_project
    return _ask


def _ask(name: str, offer: Offer) -> bool:
    say(offer_as_text(name, offer))
    return agrees("include it?")


def _say_left_out(plan: Resolved) -> None:
    left = [offer_as_text(name, offer) for name, offers in plan.left.items() for offer in offers]
    if left:
        say("not included; to include it, use --from-project:")
        say("\n".join(left))


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


def resolved_as_text(plan: Resolved, *, written: bool) -> list[str]:
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


def offer_as_text(name: str, offer: Offer) -> str:
    """Return a host that only the project's files name, with its warnings."""
    line = f"{name:<9}  {offer.host}: named only by {', '.join(offer.files)}, which the agent can write"
    return "\n".join([line, *(f"  careful: {warning}" for warning in warnings(offer))])


def resolved_as_json(plan: Resolved, *, written: bool) -> dict[str, Any]:
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
