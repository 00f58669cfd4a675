import pytest

from agent_sandbox.policytools.lint.checks.queries import encoded_query, route_template
from policy_texts import Find

SHARED = "domains:\n  - host: a.test\n    rules:\n      - query: {{exact: {}}}\n"


@pytest.mark.parametrize(
    ("exact", "what"),
    [
        ('{token: ["%2B"]}', '`token: "%2B"` matches only `token=%252B`, not `token=%2B`'),
        ('{token: "a%2fb"}', '`token: "a%2fb"` matches only `token=a%252fb`, not `token=a%2fb`'),
        ('{q: "a+b"}', '`q: "a+b"` matches only `q=a%2Bb`, not `q=a+b`'),
        ('{"%71": x}', '`"%71": x` matches only `%2571=x`, not `%71=x`'),
    ],
)
def test_finds_percent_encoded_query_parameters(find: Find, exact: str, what: str) -> None:
    assert find(encoded_query, SHARED.format(exact)) == [(4, what)]


@pytest.mark.parametrize("exact", ['{token: "a b"}', "{discount: 100%}", "{x: [a, b]}", '{x: "%zz"}', "{}"])
def test_ignores_decoded_query_parameters(find: Find, exact: str) -> None:
    assert find(encoded_query, SHARED.format(exact)) == []


def test_checks_denies_and_host_services_too(find: Find) -> None:
    deny = "deny:\n  - {host: a.test, rules: [{query: {exact: {x: '%2B'}}}]}\n"
    place = "host_services:\n  tracker: {to: 'host:80', query: {exact: {x: '%2B'}}}\n"
    what = '`x: "%2B"` matches only `x=%252B`, not `x=%2B`'
    assert find(encoded_query, deny + place) == [(2, what), (4, what)]


def test_ignores_short_form_lines_which_are_decoded_as_urls(find: Find) -> None:
    assert find(encoded_query, "allow:\n  - GET https://a.test/?x=%252B\n  - GET https://a.test/?y=%2B\n") == []


def test_finds_route_templates_of_web_frameworks_in_every_section(find: Find) -> None:
    domains = "domains:\n  - host: a.test\n    rules: [{path: {exact: '/users/{id}'}}]\n"
    short = "allow:\n  - GET https://a.test/x/:id\ndeny:\n  - POST https://a.test/<id>\n"
    assert find(route_template, domains + short) == [
        (3, "`/users/{id}` matches only this text"),
        (5, "`/x/:id` matches only this text"),
        (7, "`/<id>` matches only this text"),
    ]


def test_ignores_globs_and_usual_paths(find: Find) -> None:
    assert find(route_template, "allow:\n  - GET https://a.test/x/*/y/**\n  - POST https://a.test/m:run\n") == []
