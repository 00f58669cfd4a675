from dataclasses import replace

import pytest

from agent_sandbox.policy.http.graphql_body import read_operation
from agent_sandbox.policy.http.graphql_confinement import LONGEST_SEARCH, beyond, ids_in, repository_searched
from agent_sandbox.policy.http.graphql_operation import Confinement, Operation
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
    return beyond(CONFINED, operation)


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
def test_accepts_operations_within_the_repositories(document: str) -> None:
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
        ("{ search { id } }", "search not limited to one named repository"),
    ],
)
def test_names_the_first_field_or_repository_beyond_the_confinement(document: str, place: str | None) -> None:
    if place is None:
        assert read_operation(b'{"query": "%s"}' % document.replace('"', '\\"').encode()).doubt
    else:
        assert outside(document) == place


def test_an_operation_without_parsed_selections_is_beyond_the_confinement() -> None:
    assert beyond(CONFINED, Operation(kind="query")) == "an operation with directives, or nested too deeply"


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
def test_accepts_a_search_only_for_one_of_the_repositories(text: str, *, is_within: bool) -> None:
    assert CONFINED.names(repository_searched(text)) is is_within


BY_ID = Confinement(
    types=(
        ("Item", (("id", LEAF), ("on Issue", "Issue"))),
        ("Issue", (("author", "Person"), ("id", LEAF), ("items", "Item"))),
        ("Made", (("issue", "Issue"),)),
        ("Person", (("id", LEAF),)),
        ("mutation", (("createIssue", "Made"),)),
        ("query", (("node", "Item"), ("repository", "Issue"), ("search", "Item"), ("viewer", "Person"))),
    ),
    scoped=(("repository", ("owner", "name")),),
    searches=(("search", ("query",)),),
    ids=(("createIssue", ("input.repositoryId", "input.title")), ("node", ("id",))),
    ids_of=("Issue",),
    repositories=("o/app",),
)
KNOWN = {"R_1": "O/App", "R_2": "o/other"}


def operation_of(document: str) -> Operation:
    operation = read_operation(b'{"query": "%s"}' % document.replace('"', '\\"').encode())
    assert not operation.doubt
    return replace(operation, known=KNOWN)


@each(
    ("document", "place"),
    [
        ('{ node(id: "R_1") { id } }', ""),
        ('mutation { createIssue(input: {repositoryId: "R_1", title: "x"}) { issue { id } } }', ""),
        ('{ node(id: "R_2") { id } }', "node with an unknown id"),
        ('{ node(id: "R_3") { id } }', "node with an unknown id"),
        ("{ node { id } }", "node with an unknown id"),
        ('{ node(id: "R_1", a: "b", b: 1) { id } }', "node with a, b"),
        (
            'mutation { createIssue(input: {repositoryId: "R_1", projectIds: []}) { issue { id } } }',
            "createIssue with input.projectIds",
        ),
    ],
)
def test_accepts_only_known_ids_and_listed_arguments(document: str, place: str) -> None:
    assert beyond(BY_ID, operation_of(document)) == place


@each(
    ("document", "data", "found"),
    [
        (
            '{ repository(owner: "o", name: "app") { x: id author { id } items { ...on Issue { id } id } } }',
            {"repository": {"x": "I_1", "author": {"id": "U_1"}, "items": [{"id": "I_2"}, None, "I_3", {"id": 4}]}},
            {"I_1": "o/app", "I_2": "o/app"},
        ),
        ('{ repository(owner: "o", name: "app") { id: author { id } } }', {"repository": {"id": {"id": "U_1"}}}, {}),
        ('{ a: search(query: "repo:o/app") { ...on Issue { id } } }', {"a": [{"id": "I_1"}]}, {"I_1": "o/app"}),
        ('{ node(id: "R_1") { ...on Issue { id } } }', {"node": {"id": "I_1"}}, {"I_1": "O/App"}),
        (
            'mutation { createIssue(input: {repositoryId: "R_1"}) { issue { id } } }',
            {"createIssue": {"issue": {"id": "I_1"}}},
            {"I_1": "O/App"},
        ),
        (
            '{ repository(owner: "o", name: "app") { items { ...on Issue { id } ...on PullRequest { id: title } } } }',
            {"repository": {"items": [{"id": "I_of_another_repository, as a title"}]}},
            {},
        ),
        (
            '{ repository(owner: "o", name: "app") { a: author { id } items { ...on Issue { a: id } } } }',
            {"repository": {"a": {"id": "U_1"}, "items": [{"a": "I_1"}]}},
            {"I_1": "o/app"},
        ),
        ("{ viewer { id } }", {"viewer": {"id": "U_1"}}, {}),
        ('{ repository(owner: "o", name: "app") { id } }', None, {}),
    ],
)
def test_learns_ids_in_a_response_for_the_repository_of_the_operation(
    document: str, data: object, found: dict[str, str]
) -> None:
    assert ids_in(BY_ID, operation_of(document), data) == found


def test_learns_no_ids_for_an_operation_without_parsed_selections() -> None:
    assert ids_in(BY_ID, Operation(kind="query"), {"node": {"id": "I_1"}}) == {}
