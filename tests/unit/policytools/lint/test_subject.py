from collections.abc import Callable

from agent_sandbox.policytools.lint.subject import Subject

type SubjectOf = Callable[..., Subject]

TEXT = """\
services: [s]
domains:
  # what it is for
  - a.test
allow: [GET https://b.test/]
deny: [c.test]
"""


def test_a_subject_lists_only_the_entries_and_rules_of_its_own_file(subject_of: SubjectOf) -> None:
    subject = subject_of(TEXT, services={"s": "domains: [d.test]"}, organisation="tighten: true")
    assert [(line, str(entry.host)) for line, entry in subject.entries] == [(4, "a.test"), (5, "b.test")]
    assert [str(rule.conditions.host) for rule in subject.allows] == ["a.test", "b.test"]
    assert subject.remarks(4) == ("what it is for",)


def test_a_subject_lists_the_rules_of_a_restricting_file(subject_of: SubjectOf) -> None:
    subject = subject_of(f"tighten: true\n{TEXT}", services={"s": ""})
    assert [str(rule.conditions.host) for rule in subject.allows] == ["a.test", "b.test"]


def test_a_subject_lists_the_rules_of_resolved_services(subject_of: SubjectOf) -> None:
    subject = subject_of(
        "services:\n  - s\n  - node\n", services={"s": "domains: [a.test]", "node": "domains: [b.test]"}
    )
    assert [(line, name, str(rule.conditions.host)) for line, name, rule in subject.resolved] == [(3, "node", "b.test")]
