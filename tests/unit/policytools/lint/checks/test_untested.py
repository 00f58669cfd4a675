from agent_sandbox.policytools.lint.checks.untested import no_tests
from policy_texts import Find
from table_tests import each


@each(
    ("text", "lines"),
    [
        ("domains:\n  - a.test\n  - .b.test", [3]),
        ("domains:\n  - a.test\nallow:\n  - GET https://b.test/", [4]),
        ("domains:\n  - a.test\ndeny:\n  - b.test", [4]),
        ("domains:\n  - a.test\ndeny:\n  - b.test\ntests: [{allow: GET https://a.test/}]", []),
        ("services: [s]\ndomains:\n  - a.test", []),
        ("", []),
    ],
)
def test_finds_files_with_rules_but_without_tests(find: Find, text: str, lines: list[int]) -> None:
    expected = [(line, "the file has rules but no `tests`") for line in lines]
    assert find(no_tests, text, services={"s": ""}) == expected
