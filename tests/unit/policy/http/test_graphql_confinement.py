import pytest

from agent_sandbox.policy.http.graphql_body import read_operation
from agent_sandbox.policy.http.graphql_confinement import LONGEST_SEARCH, beyond, is_search_within
from agent_sandbox.policy.http.graphql_operation import Confinement
from table_tests import each

LEAF = ""
CONFINED = Confinement(
    types=(
        ("Item", (("id", LEAF), ("on Issue", "Issue"))),
        ("Issue", (("author", "Person"), ("id", LEAF))),
        ("Person", (("login", LEAF),)),
        ("Repository", (("id", LEAF), ("item", "Item"), ("owner", "Person"), ("on Repository", "Repository"))),
        ("query", (("repository", "Repository"), ("search", "Item"), ("viewer", "Person"))),
    ),
    scoped=(("repository", ("owner", "name")),),
    searches=(("search", ("query",)),),
    repositories=("o/app", "team/*"),
)


def outside(document: str) -> str:
    operation = read_operation(b'{"query": "%s"}' % document.replace('"', '\\"').encode())
    assert not operation.doubt
    return beyond(CONFINED, operation.kind, operation.selections)


@each(
    "document",
    [
        '{ repository(owner: "o", name: "app") { id __typename } }',
        '{ repository(owner: "O", name: "APP") { owner { login } } }',
        '{ a: repository(owner: "team", name: "any") { item { ...on Issue { author { login } } id } } }',
        '{ repository(owner: "o", name: "app") { ...on Repository { ... { id } } } }',
        "{ viewer { login } }",
        '{ search(query: "repo:o/app is:open") { id } }',
    ],
)
def test_what_stays_within_the_repositories_is_taken(document: str) -> None:
    assert outside(document) == ""


@each(
    ("document", "place"),
    [
        ('{ repository(owner: "o", name: "other") { id } }', "repository o/other"),
        ('{ repository(owner: "o", name: "app", x: "y") { id } }', "repository o/app"),
        ('{ repository(owner: 1, name: "app") { id } }', "repository ?/app"),
        ('{ repository(owner: "team", name: "*") { id } }', "repository team/*"),
        ('{ repository(owner: "o", name: "app") { secret } }', "query.repository.secret"),
        ('{ repository(owner: "o", name: "app") { id { id } } }', "query.repository.id"),
        ('{ repository(owner: "o", name: "app") { owner } }', "query.repository.owner"),
        ('{ repository(owner: "o", name: "app") { __typename { id } } }', "query.repository.__typename"),
        ('{ repository(owner: "o", name: "app") { item { ...on Other { id } } } }', "query.repository.item on Other"),
        ('{ repository(owner: "o", name: "app") @skip(if: false) { ...on A { id } } }', None),
        ("{ node { id } }", "query.node"),
        ("{ search { id } }", "search beyond one named repository"),
    ],
)
def test_the_first_thing_beyond_them_is_named(document: str, place: str | None) -> None:
    if place is None:
        assert read_operation(b'{"query": "%s"}' % document.replace('"', '\\"').encode()).doubt
    else:
        assert outside(document) == place


def test_an_operation_that_was_not_read_is_beyond() -> None:
    assert beyond(CONFINED, "query", None) == "an operation with directives, or nested too deeply"


@pytest.mark.parametrize(
    ("text", "is_within"),
    [
        ("repo:o/app", True),
        ("crash repo:O/App  is:issue", True),
        ('label:"good first issue" -author:me repo:team/x fix-1 #2', True),
        ('label:"a: (b)" repo:o/app', True),
        ("", False),
        ("is:issue", False),
        ("repo:o/other", False),
        ("repo:team/*", False),
        ("repo:o/app repo:o/app", False),
        ("repo:o/app org:o", False),
        ("repo:o/app user:o", False),
        ("repo:o/app OR crash", False),
        ("repo:o/app not crash", False),
        ("-repo:o/app", False),
        ("Repo:o/app", False),
        ("repo: o/app", False),
        ('"repo:o/app"', False),
        ("repo:o/app (crash)", False),
        ("repo:o/app\u00a0org:x", False),
        ("repo:o/app org\uff1ax", False),
        ("repo:o/app\tcrash", False),
        ('repo:o/app label:"a', False),
        ('repo:o/app label:"a"org:x', False),
        (f"repo:o/app {'x' * LONGEST_SEARCH}", False),
    ],
)
def test_a_search_is_for_one_of_the_repositories(text: str, *, is_within: bool) -> None:
    assert is_search_within(CONFINED, text) is is_within
