"""Show what was learned, ask which entries to write, and report which recorded requests they allow."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from agent_sandbox.cli.terminal.output import emit_lines, say
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.counted import counted, times
from agent_sandbox.policy.explain.advice import SETUP
from agent_sandbox.policy.http.request import DEFAULT_PORTS, Request
from agent_sandbox.policytools.edit.short_rule import ShortRule
from agent_sandbox.policytools.suggest.learning import Entry, Learned, Replay

MOST_ENTRIES = 100
MOST_VALUES = 3
MOST_LISTED = 10
OTHER_NEEDS = "(without queries, bodies and headers, which the log does not have)"


class Chosen(Struct, kw_only=True):
    """The entries to write."""

    services: list[str] = []
    rules: list[ShortRule] = []

    def add(self, entry: Entry) -> None:
        """Add an entry as it is shown."""
        if entry.service:
            self.services.append(entry.service)
        else:
            self.add_rules(entry)

    def add_rules(self, entry: Entry) -> None:
        """Add the single rules of an entry, even if it has a service."""
        self.rules += (proposal.rule for proposal in entry.proposals)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.services or self.rules)


def without_warning(learned: Learned) -> Chosen:
    """Return the entries without a warning."""
    chosen = Chosen()
    for entry in learned.entries[:MOST_ENTRIES]:
        if not entry.warnings and not _command(entry):
            chosen.add(entry)
    return chosen


def choose(learned: Learned, ask: Callable[[str], str]) -> Chosen:
    """Ask about each entry; no answer means no."""
    chosen, entries = Chosen(), learned.entries[:MOST_ENTRIES]
    for number, entry in enumerate(entries, start=1):
        emit_lines([*_entry(entry), ""][:-1])
        if command := _command(entry):
            say(f"run this command: {command}")
            continue
        offers = entry.proposals[0].services if not entry.service else ()
        keys = "y/r/N/q; r adds the single rules" if entry.service else "y/N/q"
        keys = f"y/s/N/q; s adds the service {offers[0]}" if offers else keys
        answer = ask(f"add it? ({number} of {len(entries)}) [{keys}]")
        if answer == "q":
            break
        if answer == "y":
            chosen.add(entry)
        elif answer == "r" and entry.service:
            chosen.add_rules(entry)
        elif answer == "s" and offers:
            chosen.services.append(offers[0])
    return chosen


def as_text(learned: Learned) -> Iterator[str]:
    """Yield all entries with counts and examples, then what is left out."""
    for entry in learned.entries[:MOST_ENTRIES]:
        yield from _entry(entry)
    if len(learned.entries) > MOST_ENTRIES:
        yield f"and {len(learned.entries) - MOST_ENTRIES} more, seen less often"
    if not learned.entries:
        yield "nothing to learn: every request was allowed, or is left out"
    yield from left_out(learned)


def left_out(learned: Learned) -> Iterator[str]:
    """Yield the requests that became no entry, by reason."""
    if learned.left_out:
        yield styled(("left out:", "title"))
    for why, seen in sorted(learned.left_out.items(), key=lambda item: -item[1].count):
        yield f"  {times(seen.count)}, {why}: {seen.example}"


def _entry(entry: Entry) -> Iterator[str]:
    yield styled((f"{entry.section}: {entry.text}", "command"))
    tool = entry.seen.tool
    yield f"  {times(entry.seen.count)}{f', it looks like {tool}' if tool else ''}, such as {entry.seen.example}"
    if not entry.service:
        for values in entry.proposals[0].values:
            more = ", ..." if len(values) > MOST_VALUES else ""
            yield f"  `*` stands for {counted(len(values), 'value')}: {', '.join(values[:MOST_VALUES])}{more}"
        if services := entry.proposals[0].services:
            yield f"  the service {services[0]} would allow it too, with everything else that it allows"
    for warning in entry.warnings:
        yield styled("  ", ("careful:", "warn"), f" {warning}")


def _command(entry: Entry) -> str:
    """Return the command that an entry needs instead, because a push to its server also needs a token."""
    command = entry.proposals[0].git_command if not entry.service else ""
    return command if command.startswith(SETUP) else ""


def replayed(found: Replay, *, untried: Sequence[Entry] = ()) -> Iterator[str]:
    """Yield how many recorded requests pass, which do not, and which should not."""
    yield styled(("replay:", "title"), f" {found.passed} of {found.all} recorded requests pass {OTHER_NEEDS}")
    for request, why in [*found.failing.items()][:MOST_LISTED]:
        yield styled("  ", ("deny", "deny"), f"  {_asked(request)}  {why}")
    if len(found.failing) > MOST_LISTED:
        yield f"  and {len(found.failing) - MOST_LISTED} more"
    for entry in untried:
        yield f"  {entry.service} is not tried: it is written from the configuration of this machine"
    for request in found.leaking[:MOST_LISTED]:
        yield styled("  ", ("careful:", "warn"), f" left out, but an entry allows it: {_asked(request)}")
    if len(found.leaking) > MOST_LISTED:
        yield f"  and {len(found.leaking) - MOST_LISTED} more that were left out"


def _asked(request: Request) -> str:
    host = f"[{request.host}]" if ":" in request.host else request.host
    port = "" if request.port == DEFAULT_PORTS[request.scheme] else f":{request.port}"
    return f"{request.method} {request.scheme}://{host}{port}{request.path}"
