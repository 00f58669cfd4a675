from collections.abc import Callable

from agent_sandbox.policytools.lint.subject import Subject
from agent_sandbox.policytools.lint.table import CHECKS, lint

type SubjectOf = Callable[..., Subject]

TEXT = """\
domains:
  - "*.pages.dev"
  - pastebin.com    # accepted: upload-host, the bot's own account
  - "*.a.example"
  - a.onion         # accepted: upload-host, not what is wrong here
tests: [{allow: GET https://pastebin.com/}]
"""


def test_lists_findings_by_line_without_accepted_findings(subject_of: SubjectOf) -> None:
    found = [(one.finding.line, one.check) for one in lint(subject_of(TEXT))]
    assert found == [(2, "tenant-wildcard"), (4, "unexplained-wildcard"), (5, "never-matches")]


def test_a_file_with_nothing_to_find_has_no_findings(subject_of: SubjectOf) -> None:
    assert lint(subject_of("domains: [a.example]")) == ()


def test_the_hint_for_a_bad_acceptance_lists_all_checks(subject_of: SubjectOf) -> None:
    (one,) = lint(subject_of("# accepted: nonsense, x"))
    assert (one.check, one.finding.fix.rpartition(" are ")[2]) == ("bad-acceptance", ", ".join(CHECKS))
