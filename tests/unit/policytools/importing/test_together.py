import pytest

from agent_sandbox.policytools.importing import together
from agent_sandbox.policytools.importing.records import Imported, Note, Record, Rule, left_out
from agent_sandbox.policytools.importing.together import Wanted, take_over

READ: Rule = {"methods": ["GET"]}
DOTTED: Rule = {"path": {"exact": "/a/../b"}}


def taken(*rules: Rule | None, before: list[Note] | None = None) -> tuple[list[list[Rule | None]], Imported]:
    """Import one rule into each record; the second record replaces. Return the imported rules and the result."""
    records = [
        Record(host=f"h{number}.test", where=f"f:{number}", replaces=number == 1) for number in range(len(rules))
    ]
    found = Imported(notes=before or [])
    wanted = [
        Wanted(record=record, rule=rule, where=record.where, after=number)
        for number, (record, rule) in enumerate(zip(records, rules, strict=True))
    ]
    take_over(wanted, found)
    return [[one.rule for one in record.taken] for record in records], found


def test_gives_each_record_its_rule() -> None:
    records, found = taken(None, READ, None)
    assert (records, found.notes) == ([[None], [READ], [None]], [])


@pytest.mark.parametrize("many", [1, 2, 500])
def test_notes_an_unsupported_rule_in_order_and_imports_the_others(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(together, "TOGETHER", many)
    first, second = Note(where="f:0", what="first"), Note(where="f:1", what="second")
    records, found = taken(READ, DOTTED, None, before=[first, second])
    assert records == [[READ], [], [None]]
    assert found.notes == [first, left_out("f:1", "the path contains a dot segment: '/a/../b'"), second]


def test_a_batch_gives_the_same_result_as_single_rules() -> None:
    record = Record(host="a.test", where="f:1", replaces=True)
    wanted = [Wanted(record=record, rule=rule, where="f:1", after=0) for rule in (READ, None, {"schemes": ["https"]})]
    take_over(wanted, Imported())
    at_once, alone = record.taken[:], Record(host="a.test", where="f:1", replaces=True)
    for one in wanted:
        alone.add(one.rule, one.where, Imported())
    assert at_once == alone.taken
