"""The notes that `init` prints besides the list of files."""

from collections.abc import Iterator, Sequence
from typing import Any

from agent_sandbox.agents.together import Agents
from agent_sandbox.policyfile.parse.aliases import service_meant
from agent_sandbox.problems import UserError
from agent_sandbox.project.render import dotenv
from agent_sandbox.project.render.devcontainer import DOUBTFUL
from agent_sandbox.project.render.formats import jsonc
from agent_sandbox.project.render.formats.foreign import load_foreign
from agent_sandbox.project.render.formats.header import INIT
from agent_sandbox.project.render.paths import DEVCONTAINER, DOTENV, POLICY, STACK
from agent_sandbox.project.render.policy import Offered
from agent_sandbox.project.render.reconcile import Change, Verdict
from agent_sandbox.stack.engine import COMMAND, FILES_VARIABLE

LACKING = f"{POLICY} does not name the service `{{0}}`: agent-sandbox policy allow {{0}}"


def notes(  # noqa: PLR0913 - what `init` found and did
    changes: Sequence[Change],
    agents: Agents,
    offered: Offered,
    own_stacks: Sequence[str] = (),
    providers: Sequence[str] = (),
    *,
    uses_dotenv: bool,
) -> tuple[str, ...]:
    """Return the notes, each one sentence; `own_stacks` are the project's own stack files.

    `providers` are the model providers that the user chose.
    """
    by_path = {change.path: change for change in changes}
    stack, named = by_path[STACK], by_path.get(DOTENV)
    return (
        *(f"{change.path}: merged; {change.why}" for change in changes if _replaced(change)),
        *_doubtful(by_path[DEVCONTAINER]),
        *(LACKING.format(name) for name in missing_services(changes, (*agents.services, *providers))),
        *_missing_provider(by_path[POLICY], agents),
        *_shown_services(by_path[POLICY], offered),
        *_offers(by_path[POLICY], offered),
        *_own(own_stacks, stack, uses_dotenv=uses_dotenv),
        *(_open(named, stack) if named else ()),
        *(_added(named) if named and uses_dotenv else ()),
    )


def _replaced(change: Change) -> bool:
    return change.verdict is Verdict.MERGED and bool(change.why)


def _doubtful(change: Change) -> Iterator[str]:
    try:
        present = jsonc.parse(change.after)
    except jsonc.JsoncError:
        return
    for key, why in DOUBTFUL.items():
        if present.values.get(key):
            yield f"{DEVCONTAINER}:{present.line_of(key)}: `{key}` {why}; agent-sandbox keeps it"


def missing_services(changes: Sequence[Change], services: Sequence[str]) -> tuple[str, ...]:
    """Return those of the services that a policy that existed before does not name; none if it is invalid."""
    change = next(change for change in changes if change.path == POLICY)
    named = None if change.verdict is Verdict.WRITTEN else _services(change.after)
    return () if named is None else tuple(name for name in services if name not in named)


def _shown_services(change: Change, offered: Offered) -> Iterator[str]:
    """Yield what was written because of the project's files; or for a policy that exists, what it lacks."""
    named = _services(change.after) or set()
    for service, files in offered.services.items():
        if change.verdict is Verdict.WRITTEN:
            yield f"{POLICY} names the service `{service}`, for {', '.join(files)}"
        elif service not in named:
            command = f"agent-sandbox policy allow {service}"
            yield f"{POLICY} does not name the service `{service}`, for {', '.join(files)}: {command}"


def _missing_provider(change: Change, agents: Agents) -> Iterator[str]:
    named = _services(change.after)
    for manifest in agents.manifests:
        if not manifest.providers or named is None or not named.isdisjoint(manifest.providers):
            continue
        some = ", ".join(f"`{provider}`" for provider in manifest.providers)
        yield f"{manifest.title} works with models of several providers: add one of {some} under `services` in {POLICY}"


def _services(text: str) -> set[str] | None:
    try:
        document: Any = load_foreign(text, file=POLICY, most=len(text) + 1)
        services = (document or {}).get("services") or ()
        if not isinstance(services, list | tuple):
            return None
        words = (service["name"] if isinstance(service, dict) else str(service) for service in services)
        return {service_meant(word) or word for word in words}
    except (UserError, AttributeError, LookupError, TypeError):
        return None  # `policy check` reports its problems


def _offers(change: Change, offered: Offered) -> Iterator[str]:
    allowed, left = (", ".join(offer.host for offer in some) for some in (offered.allowed, offered.left))
    if change.verdict is not Verdict.WRITTEN:
        if offered.detect and (allowed or left):
            hosts = ", ".join(filter(None, (allowed, left)))
            yield f"this project's files name {hosts}: to allow them, add them under `domains` in {POLICY}"
        return
    if allowed:
        yield f"{POLICY} allows reading from {allowed}: this project's files and this machine's configuration name them"
    if left and offered.detect:
        yield (
            f"this project's files alone name {left}: not allowed, because anyone may have written them; "
            f"remove the `#` under `domains` in {POLICY} from those that you trust"
        )
    elif left:
        yield f"this project's files name {left}: see `domains` in {POLICY}"


def _own(own_stacks: Sequence[str], stack: Change, *, uses_dotenv: bool) -> Iterator[str]:
    """Yield which of two stacks the plain command of the engine uses: the sandbox, or the project's own."""
    own = next(iter(own_stacks), "")
    if uses_dotenv:
        if own:
            undo = f"`{INIT} --no-dotenv` gives it back to {own}"
            yield f"`{COMMAND}` in this directory uses the sandbox, by {DOTENV}; {undo}"
    elif stack.verdict is Verdict.WRITTEN:
        keeps = f"still uses {own}" if own else "does not use the sandbox"
        yield f"`{COMMAND}` in this directory {keeps}; for the sandbox, use: {COMMAND} --file {STACK}"


def _open(change: Change, stack: Change) -> Iterator[str]:
    if change.writes and stack.verdict is not Verdict.WRITTEN:
        yield f"{DOTENV} was replaced: if the stack is running, run `agent-sandbox up` to make it read-only again"


def _added(change: Change) -> Iterator[str]:
    files = dotenv.assignments(change.after).get(FILES_VARIABLE)
    added = files.value.removeprefix(f"{STACK}:") if files else STACK
    if added != STACK:
        named = f"`{FILES_VARIABLE}` also names {added}"
        yield f"{DOTENV}: {named}: these files can weaken the sandbox, so check them first"
