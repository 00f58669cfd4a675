import pytest

from agent_sandbox.policyfile import parse_layer
from agent_sandbox.problems import UserError

TWICE = """\
services:
  - github
  - claude
  - {name: github, readonly: true}
  - github
domains:
  - {host: A.test, merge_mode: replace, rules: [{methods: [GET]}]}
  - a.test
  - host: a.test.
    merge_mode: replace
"""


def told(text: str) -> list[str]:
    with pytest.raises(UserError) as raised:
        parse_layer(text, name="project", file="p.yaml", shown="p.yaml", services=("github", "claude"))
    return [str(problem) for problem in raised.value.problems]


def test_reports_both_places_of_a_duplicate_entry() -> None:
    one = "keep one entry with the options of both"
    merged = "merge the two entries into one"
    assert told(TWICE) == [
        f"p.yaml:4:5: service `github` is named at p.yaml:2:5, too; {one}",
        f"p.yaml:5:5: service `github` is named at p.yaml:2:5, too; {one}",
        f"p.yaml:9:5: `a.test` replaces lower layers at p.yaml:7:5, too; {merged}",
    ]


def test_reports_duplicates_together_with_problems_of_a_restricting_layer() -> None:
    assert len(told(f"tighten: true\n{TWICE}")) == 5


def test_a_host_can_have_several_entries() -> None:
    text = "domains: [a.test, {host: a.test, ports: [8443]}, {host: a.test, merge_mode: replace, ports: [81]}]"
    assert len(parse_layer(text, name="p", file="p", shown="p", services=()).spec.domains) == 3
