"""What a person reads when something can be mended."""

from agent_sandbox.problems import Problem, UserError


def test_a_problem_says_where_what_and_how_to_mend_it() -> None:
    problem = Problem(where="policy.yaml:3:5", what="unknown key 'hots'", hint="did you mean 'host'?")
    assert str(problem) == "policy.yaml:3:5: unknown key 'hots'; did you mean 'host'?"


def test_a_problem_without_a_place_or_a_mend_says_the_rest() -> None:
    assert str(Problem(where="", what="no Docker engine answers")) == "no Docker engine answers"


def test_an_error_carries_every_problem_in_order() -> None:
    problems = [Problem(where="a", what="first"), Problem(where="b", what="second", hint="mend it")]
    error = UserError(problems)
    assert error.problems == tuple(problems)
    assert str(error) == "a: first\nb: second; mend it"
