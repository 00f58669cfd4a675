from agent_sandbox.policytools.edit.route_template import as_pattern
from table_tests import each


@each(
    ("route", "pattern"),
    [
        ("/users/{id}", "/users/*"),
        ("/users/{id:int}/x", "/users/*/x"),
        ("/users/${id}.json", "/users/*.json"),
        ("/users/:id/x", "/users/*/x"),
        ("/users/<int:id>", "/users/*"),
        ("/users/[id]", "/users/*"),
        ("/{proxy+}", "/**"),
        ("/a/{*rest}", "/a/**"),
        ("/a/{rest:path}", "/a/**"),
        ("/a/<path:rest>", "/a/**"),
        ("/a/[...slug]", "/a/**"),
        ("/a/[[...slug]]", "/a/**"),
        ("/a/(.*)", "/a/**"),
        ("/a/.*", "/a/**"),
        ("GET https://a.test:8443/{id}?x={y}", "GET https://a.test:8443/*?x={y}"),
    ],
)
def test_converts_route_variables_to_stars(route: str, pattern: str) -> None:
    assert as_pattern(route) == pattern


@each(
    "text",
    [
        "/",
        "/v1/models/gemini:generateContent",
        "/Products(1)",
        "/$metadata",
        "/.well-known/x",
        "/*/y/**",
        "/@scope/name",
        "/%7Bid%7D",
        "GET https://[::1]:8443/x",
        "GET https://a.test:443/x",
        "*.example.com",
    ],
)
def test_keeps_other_paths_unchanged(text: str) -> None:
    assert as_pattern(text) == text
