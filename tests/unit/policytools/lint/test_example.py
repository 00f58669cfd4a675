from typing import Any

from agent_sandbox.policytools.importing.records import conditions_of
from agent_sandbox.policytools.lint.example import requests_beside
from table_tests import each


def first(wide: dict[str, Any], *narrow: dict[str, Any]) -> str:
    (asked,) = conditions_of([{"host": "a.test", **wide}])
    others = conditions_of([{"host": "a.test", **one} for one in narrow])
    return next((f"{one.method} {one.url}" for one in requests_beside(asked, others)), "")


GET = {"rules": [{"methods": ["GET"]}]}
ITEMS = {"rules": [{"methods": ["GET"], "path": {"prefix": "/items/"}}]}


@each(
    ("wide", "narrow", "request"),
    [
        ({}, [GET], "DELETE https://a.test/"),
        ({}, [ITEMS], "DELETE https://a.test/items/"),
        (GET, [ITEMS], "GET https://a.test/"),
        (GET, [GET], ""),
        (ITEMS, [GET], ""),
        ({}, [{}], ""),
        (ITEMS, [], "GET https://a.test/items/"),
        ({"rules": [{"path": {"glob": "/*/x/**"}}]}, [GET], "DELETE https://a.test/x/x/x/y"),
        (
            {"rules": [{"path": {"prefix": "/v1"}}]},
            [{"rules": [{"path": {"exact": "/v1"}}]}],
            "DELETE https://a.test/v1/x",
        ),
        ({"rules": [{"schemes": ["http"], "query": {"exact": {"q": "1"}}}]}, [GET], "DELETE http://a.test/?q=1"),
        # Bodies are not tried.
        ({"rules": [{"graphql": {"query": ["viewer"]}}]}, [], ""),
    ],
)
def test_finds_a_request_that_one_rule_matches_and_the_others_do_not(
    wide: dict[str, Any], narrow: list[dict[str, Any]], request: str
) -> None:
    assert first(wide, *narrow) == request
