"""Problems, as users read them."""

from agent_sandbox.problems import Problem, UserError


def test_a_problem_shows_place_message_and_hint() -> None:
    problem = Problem(where="policy.yaml:3:5", what="unknown key 'hots'", hint="did you mean 'host'?")
    assert str(problem) == "policy.yaml:3:5: unknown key 'hots'; did you mean 'host'?"


def test_a_problem_without_place_and_hint_shows_only_the_message() -> None:
    assert str(Problem(where="", what="no Docker engine answers")) == "no Docker engine answers"


def test_an_error_lists_all_problems_in_order() -> None:
    problems = [Problem(where="a", what="first"), Problem(where="b", what="second", hint="mend it")]
    error = UserError(problems)
    assert error.problems == tuple(problems)
    assert str(error) == "a: first\nb: second; mend it"
