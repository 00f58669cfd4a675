from agent_sandbox.policy.errors import Ambiguous, Unfit


def test_what_is_unfit_says_what_and_how_to_mend_it() -> None:
    unfit = Unfit("`*` would allow every host", "name the hosts")
    assert (unfit.what, unfit.hint) == ("`*` would allow every host", "name the hosts")


def test_a_doubt_says_what_was_doubtful() -> None:
    assert str(Ambiguous("the path has a fragment")) == "the path has a fragment"
