"""`agent-sandbox policy services [list | [show] NAME | diff OLD [NEW] [NAME] | resolve [NAME]]`."""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from agent_sandbox.cli.framework.options import DryRun, Json, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say
from agent_sandbox.cli.terminal.question import agrees
from agent_sandbox.cli.terminal.tty import at_terminal
from agent_sandbox.features.policy.file import POLICY_FILE, find_policy
from agent_sandbox.policyfile.resolved import MIRRORED, RESOLVED, resolved_for
from agent_sandbox.problems import Problem, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_sandbox.detect import Offer
    from agent_sandbox.policyfile.catalogue import Catalogue
    from agent_sandbox.runtime.policies.resolving import Resolved, Take


class Do(StrEnum):
    """An action on services."""

    LIST = "list"
    SHOW = "show"
    DIFF = "diff"
    RESOLVE = "resolve"


What = Annotated[str, Argument(help="list, show NAME, diff OLD NEW, or resolve NAME; NAME alone means show NAME.")]
First = Annotated[str | None, Argument(help="The service; for diff, the older version: a folder or a version in git.")]
Second = Annotated[
    str | None, Argument(help="For diff, the newer version; by default the one that this program ships.")
]
Third = Annotated[str | None, Argument(help="For diff, the one service to compare.")]
From = Annotated[Path | None, Option("--from", help="For resolve: one more configuration file of the tool.")]
Project = Annotated[bool, Option(help="For resolve: include hosts that only the project's files name.")]
Force = Annotated[bool, Option(help="For resolve: replace a file that was edited.")]


def completions(*before: str) -> tuple[str, ...]:
    """Return the actions and the names of services, for shell completion."""
    match before:
        case ():
            return (*Do, *_names())
        case (Do.SHOW,):
            return _names()
        case (Do.RESOLVE,):
            return tuple(sorted((*RESOLVED, *MIRRORED)))
    return ()


def _names() -> tuple[str, ...]:
    from agent_sandbox.policyfile.catalogue import shipped_services  # noqa: PLC0415 - not needed for `--help`

    return tuple(sorted({*shipped_services(), *RESOLVED}))


def services(  # noqa: PLR0913 - each is an option
    what: What = Do.LIST.value,
    first: First = None,
    second: Second = None,
    third: Third = None,
    *,
    path: ProjectPath = None,
    source: From = None,
    from_project: Project = False,
    force: Force = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """List the services, show what one allows and why, compare two versions, or resolve python, node and debian.

    A resolved service is written beside the policy, from the configuration of pip, npm or apt. Hosts that only the
    project's files name are asked about, because the agent can write those files.
    """
    do, words = _asked(*(word for word in (what, first, second, third) if word is not None))
    match do:
        case Do.LIST:
            _list(path, json=json)
        case Do.SHOW:
            _show(words[0], path, others=() if what == Do.SHOW else tuple(Do), json=json)
        case Do.DIFF:
            _diff(words, json=json)
        case Do.RESOLVE:
            name = next(iter(words), None)
            _resolve(name, path, source, from_project=from_project, force=force, dry_run=dry_run, json=json)


# The least and the most words that each action takes.
WORDS = {Do.LIST: (0, 0), Do.SHOW: (1, 1), Do.DIFF: (1, 3), Do.RESOLVE: (0, 1)}
USAGE = "agent-sandbox policy services list | [show] NAME | diff OLD [NEW] [NAME] | resolve [NAME]"
FOLDERS = "OLD is a folder of services, or a version in git"


def _asked(what: str, *words: str) -> tuple[Do, tuple[str, ...]]:
    """Return the action and its arguments; a first word that is not an action is a service to show."""
    do, words = (Do(what), words) if what in Do else (Do.SHOW, (what, *words))
    least, most = WORDS[do]
    if not least <= len(words) <= most:
        counts = f"{least} to {most} words" if most > least + 1 else _counted(least, most)
        what = f"`{do}` takes {counts}, not {len(words)}"
        raise UserError([Problem(where="", what=what, hint=USAGE)])
    return do, words


def _counted(least: int, most: int) -> str:
    return f"{' or '.join(map(str, range(least, most + 1)))} {'word' if most == 1 else 'words'}"


def _known(path: Path | None) -> "Catalogue":
    """Return the services that the project's policy may name, or outside a project the shipped ones."""
    from agent_sandbox.policyfile import services_beside, shipped_services  # noqa: PLC0415 - not needed for `--help`

    try:
        return services_beside(find_policy(path, cwd=Path.cwd()))
    except UserError:
        return shipped_services()


def _list(path: Path | None, *, json: bool) -> None:
    from agent_sandbox.features.policy.services import list_as_json, list_as_text  # noqa: PLC0415 - as above

    found = _known(path)
    known = {name: layer for name, layer in found.items() if name not in RESOLVED or name in found.found}
    _emit(list_as_json(known) if json else list_as_text(known), json=json)


def _show(wanted: str, path: Path | None, *, others: tuple[Do, ...], json: bool) -> None:
    from agent_sandbox.features.policy.services import show_as_json, show_as_text  # noqa: PLC0415 - as above
    from agent_sandbox.policyfile.parse.aliases import service_called  # noqa: PLC0415 - as above
    from agent_sandbox.policyfile.parse.checking import nearest_service  # noqa: PLC0415 - as above
    from agent_sandbox.policyfile.resolved import advice_for  # noqa: PLC0415 - as above

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


def _diff(words: "Sequence[str]", *, json: bool) -> None:
    """Compare two versions: all services, or the one that `words` names (and that is not a folder)."""
    from agent_sandbox.features.policy.services import diff_as_json, diff_as_text  # noqa: PLC0415 - as above
    from agent_sandbox.policyfile import shipped_services  # noqa: PLC0415 - as above
    from agent_sandbox.policytools.services import difference  # noqa: PLC0415 - as above
    from agent_sandbox.runtime.policies.service_versions import services_of  # noqa: PLC0415 - as above

    shipped = shipped_services()
    named = [word for word in words if word in shipped and not Path(word).is_dir()] or list(words[2:])
    versions = [word for word in words if word not in named]
    if not versions or len(named) > 1:
        wrong = f"`{'`, `'.join(named)}`: diff compares two versions, of one service or of all"
        raise UserError([Problem(where="", what=wrong, hint=f"{USAGE}; {FOLDERS}")])
    was, now = services_of(versions[0]), services_of(versions[1]) if versions[1:] else dict(shipped)
    for name in named:
        if name not in {*was, *now}:
            raise UserError([Problem(where=name, what="not a service in either version", hint=USAGE)])
        was, now = ({name: of[name]} if name in of else {} for of in (was, now))
    found = difference(was, now)
    _emit(diff_as_json(found) if json else diff_as_text(found, was, now), json=json)


def _emit(answer: Any, *, json: bool) -> None:  # noqa: ANN401 - lines, or what becomes JSON
    if json:
        emit_json(answer)
    else:
        emit_lines(answer)


def _resolve(  # noqa: PLR0913 - each is an option
    name: str | None,
    path: Path | None,
    source: Path | None,
    *,
    from_project: bool,
    force: bool,
    dry_run: bool,
    json: bool,
) -> None:
    from agent_sandbox.features.policy.resolve_services import write_resolved  # noqa: PLC0415 - as above
    from agent_sandbox.features.policy.services import resolved_as_json, resolved_as_text  # noqa: PLC0415 - as above
    from agent_sandbox.policyfile.parse.aliases import service_called  # noqa: PLC0415 - as above
    from agent_sandbox.runtime.policies.registries import this_machine  # noqa: PLC0415 - as above
    from agent_sandbox.runtime.policies.resolving import resolve  # noqa: PLC0415 - as above

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


def _taker(*, from_project: bool, ask: bool) -> "Take":
    """Return the function that decides which hosts of the project's files to include; no answer means no."""
    if from_project or not ask or not at_terminal():
        return lambda _name, _offer: from_project
    return _ask


def _ask(name: str, offer: "Offer") -> bool:
    from agent_sandbox.features.policy.services import offer_as_text  # noqa: PLC0415 - as above

    say(offer_as_text(name, offer))
    return agrees("include it?")


def _say_left_out(plan: "Resolved") -> None:
    from agent_sandbox.features.policy.services import offer_as_text  # noqa: PLC0415 - as above

    left = [offer_as_text(name, offer) for name, offers in plan.left.items() for offer in offers]
    if left:
        say("not included; to include it, use --from-project:")
        say("\n".join(left))
