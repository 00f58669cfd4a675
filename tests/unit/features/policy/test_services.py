from agent_sandbox.features.policy.services import diff_as_text, list_as_text, show_as_text
from agent_sandbox.policyfile import parse_service
from agent_sandbox.policytools.services import Difference

BARE = parse_service("", name="x", file="f", shown="s")


def test_shows_an_empty_service() -> None:
    assert [*show_as_text("x", BARE)] == ["x:  ()", ""]


def test_columns_are_as_wide_as_their_longest_value() -> None:
    assert [*list_as_text({"x" * 9: BARE})][:2] == [
        "SERVICE    HOSTS  REVIEWED  NAME",
        "xxxxxxxxx      0            ",
    ]


def test_reports_that_nothing_differs() -> None:
    nothing = Difference(added=(), removed=(), changed=())
    assert diff_as_text(nothing, {}, {}) == ["no difference in what the services allow"]
