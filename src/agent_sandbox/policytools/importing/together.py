"""Import rules in batches: parsing a hundred entries takes hardly longer than parsing one."""

from collections.abc import Iterable
from itertools import batched
from operator import itemgetter

from msgspec import Struct

from agent_sandbox.policytools.importing.records import Imported, Note, Record, Rule, Taken, conditions_of
from agent_sandbox.problems import UserError

TOGETHER = 500


class Wanted(Struct, frozen=True, kw_only=True):
    """A rule to import into a record, its place, and the number of notes before it."""

    record: Record
    rule: Rule | None
    where: str
    after: int


def take_over(wanted: Iterable[Wanted], found: Imported) -> None:
    """Import the rules, or note at the right position why a rule is invalid here."""
    left_out: list[tuple[int, Note]] = []
    for many in batched(wanted, TOGETHER):
        try:
            made = conditions_of([one.record.value([one.rule]) for one in many])
        except UserError:
            # Import one by one to find the invalid rules.
            left_out += [(one.after, note) for one in many for note in _alone(one)]
            continue
        for one, conditions in zip(many, made, strict=True):
            one.record.taken.append(Taken(rule=one.rule, conditions=conditions))
    found.notes = [note for _, note in sorted([*left_out, *enumerate(found.notes)], key=itemgetter(0))]


def _alone(one: Wanted) -> list[Note]:
    found = Imported()
    one.record.add(one.rule, one.where, found)
    return found.notes
