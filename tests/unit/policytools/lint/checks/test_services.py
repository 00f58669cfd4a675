from agent_sandbox.policy import compile_policy
from agent_sandbox.policyfile import parse_layer, shipped_services
from agent_sandbox.policytools.lint.checks.services import any_repository, unused_service
from agent_sandbox.policytools.lint.subject import Subject
from policy_texts import Find
from table_tests import each

SERVICES = {"s": "domains: [{host: a.test, rules: [{methods: [GET]}]}]", "t": "domains: [b.test, c.test]"}


def test_finds_a_service_that_adds_nothing(find: Find) -> None:
    text = "services:\n  - s\n  - t\ndomains: [a.test, b.test]\n"
    what = "service `{}` adds nothing: other rules already deny or allow all of it".format
    assert find(unused_service, text, services=SERVICES) == [(2, what("s"))]
    assert find(unused_service, f"{text}deny: [c.test]\n", services=SERVICES) == [(2, what("s")), (3, what("t"))]


def test_ignores_a_service_without_allows(find: Find) -> None:
    assert find(unused_service, "services: [s]", services={"s": "deny: [a.test]"}) == []


@each(
    ("service", "found"),
    [
        ("{name: github, git: {access: readwrite}}", [(2, "service `github` can write to any repository (git)")]),
        (
            "{name: github, git: {access: readwrite}, api: {access: readwrite}}",
            [(2, "service `github` can write to any repository (git, api)")],
        ),
        ("{name: github, git: {access: readwrite}, repos: [o/n]}", []),
        ("{name: github, git: {access: readwrite}, readonly: true}", []),
        ("{name: github, git: {access: read}}", []),
        ("github", []),
    ],
)
def test_finds_write_access_to_any_repository(service: str, found: list[tuple[int, str]]) -> None:
    known = shipped_services()
    text = f"services:\n  - {service}\n"
    own = parse_layer(text, name="project", file="f", shown="f", services=known)
    subject = Subject(layer=own, comments={}, policy=compile_policy([own], known))
    assert [(finding.line, finding.what) for finding in any_repository(subject)] == found
