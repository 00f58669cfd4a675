from collections.abc import Callable

from agent_sandbox.policytools.lint.checks.routes import route_template

type Find = Callable[..., list[tuple[int, str]]]


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
