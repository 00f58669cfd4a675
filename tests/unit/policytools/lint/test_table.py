from collections.abc import Callable

from agent_sandbox.policytools.lint.subject import Subject
from agent_sandbox.policytools.lint.table import CHECKS, bad_acceptance, is_accepted, lint
from table_tests import each

type SubjectOf = Callable[..., Subject]

TEXT = """\
domains:
  - "*.pages.dev"
  - pastebin.com    # accepted: upload-host, the bot's own account
  - "*.a.example"
  - a.onion         # accepted: upload-host, not what is wrong here
tests: [{allow: GET https://pastebin.com/}]
"""
ACCEPTING = """\
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


def test_lists_findings_by_line_without_accepted_findings(subject_of: SubjectOf) -> None:
    found = [(one.finding.line, one.check) for one in lint(subject_of(TEXT))]
    assert found == [(2, "tenant-wildcard"), (4, "unexplained-wildcard"), (5, "never-matches")]


def test_a_file_with_nothing_to_find_has_no_findings(subject_of: SubjectOf) -> None:
    assert lint(subject_of("domains: [a.example]")) == ()


def test_the_hint_for_a_bad_acceptance_lists_all_checks(subject_of: SubjectOf) -> None:
    (one,) = lint(subject_of("# accepted: nonsense, x"))
    assert (one.check, one.finding.fix.rpartition(" are ")[2]) == ("bad-acceptance", ", ".join(CHECKS))


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
    assert is_accepted(subject_of(ACCEPTING), check, line) == (expected == "yes")


def test_finds_acceptances_without_a_reason_or_with_an_unknown_check(subject_of: SubjectOf) -> None:
    found = list(bad_acceptance(subject_of(ACCEPTING), ("x", "y")))
    assert [(finding.line, finding.what) for finding in found] == [
        (7, "this `accepted` has no reason"),
        (9, "this `accepted` names an unknown check, 'nonsense'"),
    ]
    assert {finding.fix for finding in found} == {"write `# accepted: CHECK, WHY`; checks are x, y"}
