import pytest

from agent_sandbox.policytools.explain.carets import carets
from policy_texts import PolicyOf, RequestOf
from table_tests import each


def entry(host: str, path: str = "") -> str:
    return f'domains: [{{host: "{host}", rules: [{{methods: [GET]{f", path: {path}" if path else ""}}}]}}]'


@each(
    ("line", "parts", "expected"),
    [
        ("POST https://a.test/", "method", "^^^^                "),
        ("GET http://a.test/", "scheme", "    ^^^^            "),
        ("GET https://a.test:8443/", "port", "                   ^^^^"),
        ("GET https://[2001:db8::1]:8443/", "port", "                          ^^^^"),
        ("GET https://a.test/", "port", "    ^^^^^"),
        ("GET https://a.test/b?c=1", "query", "                     ^^^"),
        ("GET https://a.test/b", "query", "                    ^"),
        ("GET https://a.test/b", "path", "                  ^^"),
        ("POST https://a.test/b?c", "method path", "^^^^               ^^"),
        ("GET https://a.test/", "host", "            ^^^^^^"),
        ("GET https://[2001:db8::1]/", "host", "            ^^^^^^^^^^^^^"),
        ("GET https://a.test/", "header", ""),
        ("GET https://a.test/", "", ""),
    ],
)
def test_marks_each_part_that_differs(request_of: RequestOf, line: str, parts: str, expected: str) -> None:
    assert carets(request_of(line), parts.split(), None) == expected.rstrip()


@pytest.mark.parametrize(
    ("line", "rule", "expected"),
    [
        ("GET https://a.b.test/", entry("b.test"), "            ^"),
        ("GET https://x.a.b.test/", entry(".a.c.test"), "            ^^^^^"),
        ("GET https://b.test/", entry("*.b.test"), "            ^^^^^^"),
        ("GET https://b.example/", entry("b.test"), "            ^^^^^^^^^"),
    ],
)
def test_does_not_mark_the_common_suffix_of_the_hosts(
    policy_of: PolicyOf, request_of: RequestOf, line: str, rule: str, expected: str
) -> None:
    asked = policy_of(rule).rules.rules[0].conditions
    assert carets(request_of(line), ["host"], asked) == expected


@each(
    ("line", "path", "expected"),
    [
        ("GET https://a.test/v1/x/y", "{exact: /v1/z/y}", "                      ^^^"),
        ("GET https://a.test/v1/x", "{exact: /v1}", "                      ^"),
        ("GET https://a.test/v1", "{exact: /v1/x}", "                  ^^^"),
        ("GET https://a.test/v2/x", "{prefix: /v1/}", "                   ^^^^"),
        ("GET https://a.test/v1/x/y", "{glob: /v1/*/z}", "                        ^"),
        ("GET https://a.test/v1/a%40b/y", "{glob: /v1/*/z}", "                            ^"),
    ],
)
def test_does_not_mark_path_segments_that_match_the_rule(
    policy_of: PolicyOf, request_of: RequestOf, line: str, path: str, expected: str
) -> None:
    asked = policy_of(entry("a.test", path)).rules.rules[0].conditions
    assert carets(request_of(line), ["path"], asked) == expected
