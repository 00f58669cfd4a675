"""`agent-sandbox policy services [list | show NAME | diff OLD [NEW] | resolve [NAME]]`."""

import os
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from agent_sandbox.backends.verbs import Terminal
from agent_sandbox.cli.options import DryRun, Json, ProjectPath
from agent_sandbox.cli.output import emit, emit_json, say
from agent_sandbox.cli.parameters import Argument, Option
from agent_sandbox.cli.policy_file import POLICY_FILE, find_policy
from agent_sandbox.cli.terminal import terminal
from agent_sandbox.problems import Problem, UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_sandbox.detect import Offer
    from agent_sandbox.policy.layer import Layer
    from agent_sandbox.runtime.resolving import Resolved, Take


class Do(StrEnum):
    """What to do with services."""

    LIST = "list"
    SHOW = "show"
    DIFF = "diff"
    RESOLVE = "resolve"


What = Annotated[Do, Argument(help="list, show NAME, diff OLD NEW, or resolve NAME.")]
First = Annotated[str | None, Argument(help="The service; for diff the older version: a folder, or a version in git.")]
Second = Annotated[str | None, Argument(help="For diff the newer version; otherwise what this program ships.")]
From = Annotated[Path | None, Option(help="For resolve: a file of the tool's configuration besides.", name="--from")]
Project = Annotated[
    bool, Option(help="For resolve: take in what only the project's files name.", name="--from-project")
]
Force = Annotated[bool, Option(help="For resolve: replace a file that has been edited.")]


def services(  # noqa: PLR0913 - each is an option
    do: What = Do.LIST,
    first: First = None,
    second: Second = None,
    *,
    path: ProjectPath = None,
    source: From = None,
    from_project: Project = False,
    force: Force = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """List the services, show what one lets through and why, compare two versions, or resolve python, node and debian.

    A service that is resolved is written beside the policy, from what pip, npm or apt name. What only the project's
    files name is asked for: the agent can write them.
    """
    _refuse_extras(do, first, second)
    match do:
        case Do.LIST:
            _list(path, json=json)
        case Do.SHOW:
            _show(first, path, json=json)
        case Do.DIFF:
            _diff(first, second, json=json)
        case Do.RESOLVE:
            _resolve(first, path, source, from_project=from_project, force=force, dry_run=dry_run, json=json)


# How many words each takes after itself: at least, and at most.
WORDS = {Do.LIST: (0, 0), Do.SHOW: (1, 1), Do.DIFF: (1, 2), Do.RESOLVE: (0, 1)}
USAGE = "agent-sandbox policy services list | show NAME | diff OLD [NEW] | resolve [NAME]"


def _refuse_extras(do: Do, *words: str | None) -> None:
    least, most = WORDS[do]
    given = sum(word is not None for word in words)
    if not least <= given <= most:
        counts = " or ".join(map(str, range(least, most + 1)))
        what = f"`{do}` goes with {counts} {'word' if most == 1 else 'words'} after it, not {given}"
        raise UserError([Problem(where="", what=what, hint=USAGE)])


def _known(path: Path | None) -> "Mapping[str, Layer]":
    """Return the services that the project's policy may name, or outside a project those that ship."""
    from agent_sandbox.policyfile import services_beside, shipped_services  # noqa: PLC0415 - `--help` needs none of it

    try:
        return services_beside(find_policy(path, cwd=Path.cwd()))
    except UserError:
        return shipped_services()


def _list(path: Path | None, *, json: bool) -> None:
    from agent_sandbox.cli.policy_services import list_as_json, list_as_text  # noqa: PLC0415 - as above

    known = dict(_known(path))
    _emit(list_as_json(known) if json else list_as_text(known))


def _show(name: str | None, path: Path | None, *, json: bool) -> None:
    from agent_sandbox.cli.policy_services import show_as_json, show_as_text  # noqa: PLC0415 - as above
    from agent_sandbox.policyfile.aliases import service_called  # noqa: PLC0415 - as above
    from agent_sandbox.policyfile.checking import nearest_service  # noqa: PLC0415 - as above
    from agent_sandbox.policyfile.resolved import RESOLVED, advice_for  # noqa: PLC0415 - as above

    known, wanted = _known(path), name or ""
    if wanted not in known and (called := service_called(wanted, known)):
        say(f"{wanted} is called `{called}` in a policy:")
        wanted = called
    if wanted not in known:
        what, hint = "is no service", nearest_service(wanted, known)
        if wanted in RESOLVED:
            what, hint = "has not been resolved yet", advice_for(wanted)
        raise UserError([Problem(where=wanted, what=what, hint=hint)])
    _emit(show_as_json(wanted, known[wanted]) if json else show_as_text(wanted, known[wanted]))


def _diff(old: str | None, new: str | None, *, json: bool) -> None:
    from agent_sandbox.cli.policy_services import diff_as_json, diff_as_text  # noqa: PLC0415 - as above
    from agent_sandbox.policyfile import shipped_services  # noqa: PLC0415 - as above
    from agent_sandbox.policytools.services import difference  # noqa: PLC0415 - as above
    from agent_sandbox.runtime.service_versions import services_of  # noqa: PLC0415 - as above

    was, now = services_of(old or ""), services_of(new) if new else dict(shipped_services())
    found = difference(was, now)
    _emit(diff_as_json(found) if json else diff_as_text(found, was, now))


def _emit(answer: Any) -> None:  # noqa: ANN401 - text, or what becomes JSON
    if isinstance(answer, str):
        emit(answer)
    else:
        emit_json(answer)


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
    from agent_sandbox.cli.policy_services import resolved_as_json, resolved_as_text  # noqa: PLC0415 - as above
    from agent_sandbox.policy.advice import APPLY  # noqa: PLC0415 - as above
    from agent_sandbox.runtime.registries import this_machine  # noqa: PLC0415 - as above
    from agent_sandbox.runtime.resolving import resolve, write  # noqa: PLC0415 - as above
    from agent_sandbox.runtime.trust.remember import remembering  # noqa: PLC0415 - as above

    policy = find_policy(path, cwd=Path.cwd())
    take = _taker(from_project=from_project, ask=not (dry_run or json))
    plan = resolve(name, policy, this_machine(os.environ), take=take, source=source, force=force)
    writes = not dry_run and not plan.kept
    if writes:
        texts = {str(POLICY_FILE.parent / change.path): change.after for change in plan.changes}
        # A flag is no yes to hosts that nobody was shown: those are asked about when the stack next starts.
        with nullcontext() if from_project else remembering(policy, texts, os.environ):
            write(policy, plan)
    _emit(resolved_as_json(plan, written=writes) if json else resolved_as_text(plan, written=writes))
    for problem in plan.nothing:
        say(f"note: {problem}")
    _say_left_out(plan)
    hint = "`--force` makes it what the diff shows"
    if plan.kept:
        raise UserError(
            Problem(where=str(POLICY_FILE.parent / kept.path), what=f"{kept.why}; nothing was written", hint=hint)
            for kept in plan.kept
        )
    if not plan.offers:
        what = "only the project's own files name a registry; nothing was written"
        raise UserError([Problem(where=", ".join(plan.left), what=what, hint="look at them; then: --from-project")])
    if dry_run:
        say("nothing was written: this was a dry run")
    else:
        names = ", ".join(f"`- {name}`" for name in plan.offers)
        say(f"to use {'it' if len(plan.offers) == 1 else 'them'}: {names} under `services` in {POLICY_FILE}, {APPLY}")


def _taker(*, from_project: bool, ask: bool) -> "Take":
    """Return what says which hosts of the project's own files are taken in: no answer is no."""
    if from_project or not ask or terminal() is Terminal.NONE:
        return lambda _name, _offer: from_project
    return _ask


def _ask(name: str, offer: "Offer") -> bool:
    from agent_sandbox.cli.policy_services import offer_as_text  # noqa: PLC0415 - as above

    say(offer_as_text(name, offer))
    try:
        return input("take it in? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def _say_left_out(plan: "Resolved") -> None:
    from agent_sandbox.cli.policy_services import offer_as_text  # noqa: PLC0415 - as above

    left = [offer_as_text(name, offer) for name, offers in plan.left.items() for offer in offers]
    if left:
        say("left out; `--from-project` takes it in:")
        say("\n".join(left))
