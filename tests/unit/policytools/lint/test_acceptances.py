from collections.abc import Callable

from agent_sandbox.policytools.lint.acceptances import bad_acceptance, is_accepted
from agent_sandbox.policytools.lint.subject import Subject
from table_tests import each

type SubjectOf = Callable[..., Subject]

TEXT = """\
domains:
  - a.test  # accepted: x, it is ours
  # accepted: y, said by all
  # accepted: x, said by one
  - b.test
  - c.test
  # accepted: x
  - d.test
  # accepted: nonsense, it is ours
  - e.test
  # is accepted: x, it is ours
  - f.test
"""


@each(
    ("check", "line", "expected"),
    [
        ("x", 2, "yes"),
        ("y", 2, "no"),
        ("x", 5, "yes"),
        ("y", 5, "yes"),
        ("x", 6, "no"),
        ("x", 8, "no"),
        ("x", 12, "no"),
    ],
)
def test_accepts_a_finding_by_check_name_and_reason_on_the_line_or_above(
    subject_of: SubjectOf, check: str, line: int, expected: str
) -> None:
    assert is_accepted(subject_of(TEXT), check, line) == (expected == "yes")


def test_finds_acceptances_without_a_reason_or_with_an_unknown_check(subject_of: SubjectOf) -> None:
    found = list(bad_acceptance(subject_of(TEXT), ("x", "y")))
    assert [(finding.line, finding.what) for finding in found] == [
        (7, "this `accepted` has no reason"),
        (9, "this `accepted` names an unknown check, 'nonsense'"),
    ]
    assert {finding.fix for finding in found} == {"write `# accepted: CHECK, WHY`; checks are x, y"}
